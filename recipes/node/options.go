package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Errors of this package. Use errors.Is.
var (
	// ErrClosed is returned after a [Keeper] was closed.
	ErrClosed = errors.New("the keeper is closed: make a new one")
	// ErrNotAcquired is returned if the node of a [Claim] exists already: another holder has the name.
	ErrNotAcquired = line.ErrNotAcquired
	// ErrReleased is the cause of the end of a claim's context after Release, and the error of a second Release.
	ErrReleased = framework.ErrReleased
	// Causes of a lost claim. ErrSuspended: the connection is lost, with the policy framework.SuspendedIsLoss.
	// ErrSessionLost: the session is lost, or may have expired. ErrNodeDeleted: another client has deleted the node.
	ErrSuspended   = framework.ErrSuspended
	ErrSessionLost = framework.ErrSessionLost
	ErrNodeDeleted = framework.ErrNodeDeleted
)

// Option configures [NewKeeper]. If one is given several times the last counts.
type Option func(*config) error

type config struct {
	client    *framework.Client
	mode      framework.CreateMode
	protected bool
	takeover  Takeover
	ttl       time.Duration
}

// WithMode sets the kind of node: framework.Ephemeral, the default; EphemeralSequential; Persistent;
// PersistentSequential.
//
//   - A persistent node belongs to no session. If there is one already, the keeper takes it for its own and
//     sets its data, as Curator does. It is deleted by Close, and stays if the process ends without it.
//   - A sequential node is always protected (see [WithProtection]): after a lost reply only the protection prefix
//     identifies it. It keeps its name, with the number, when it has to be recreated, as in Curator.
func WithMode(mode framework.CreateMode) Option {
	return func(c *config) error {
		switch mode {
		case framework.Ephemeral, framework.EphemeralSequential, framework.Persistent,
			framework.PersistentSequential:
			c.mode = mode
			return nil
		}
		return fmt.Errorf("%w WithMode: a keeper makes no node of the mode %v; for a TTL there is WithTTL",
			framework.ErrInvalidOption, mode)
	}
}

// WithProtection puts "_c_", a new UUID and "-" in front of the node's name, so that no two keepers have the
// same. Corresponds to the parameter useProtection of Curator's PersistentNode.
func WithProtection() Option { return func(c *config) error { c.protected = true; return nil } }

// Takeover is the policy of a [Keeper] for an ephemeral node of another session at its path.
type Takeover int8

const (
	// Never waits until that node is gone: a former process's goes with its session.
	Never Takeover = iota
	// AtStart replaces that node with its own, once, in one transaction: a restarted service need not wait for the
	// end of its old session. Once its node was there the keeper waits like the others. So of two keepers at one path
	// the one that started last has the node.
	AtStart
)

func (t Takeover) String() string {
	switch t {
	case Never:
		return "Never"
	case AtStart:
		return "AtStart"
	}
	return fmt.Sprintf("Takeover(%d)", int8(t))
}

// WithTakeover sets the policy for another session's ephemeral node that exists when the keeper starts. Default:
// [Never]. A node that belongs to no session is never taken over. Curator's PersistentNode, which has no such policy,
// takes either for its own and overwrites the data; an ephemeral one is then gone when the other session ends.
func WithTakeover(t Takeover) Option {
	return func(c *config) error {
		if t != Never && t != AtStart {
			return fmt.Errorf("%w WithTakeover: there is no policy %d; choose Never or AtStart",
				framework.ErrInvalidOption, int8(t))
		}
		c.takeover = t
		return nil
	}
}

// WithTTL makes the node outlive the process for a while: the node is a container, and the keeper writes to a child
// of it, named "touch", which has that TTL, every half of that time. When the writes end the server deletes the
// child, and then the node, each when it checks for such nodes, once a minute unless it is configured otherwise.
// Watches of the node and of its children do not fire for the writes; recursive watches do. Close ends the writes and
// leaves the node to the server. The node must have no other children, and no other mode. Node and child are made in
// one transaction, so that there is never one without the other, which the server would not delete. The servers need
// zookeeper.extendedTypesEnabled: without it nothing is made, and [Keeper.WaitCreated] returns
// framework.ErrUnimplemented. WaitCreated returns nil once the child was written, too, since the node may be a former
// process's.
//
// Corresponds to Curator's PersistentTtlNode, whose node is a container with the same child before Curator 5.9.0, and
// has the mode PERSISTENT_WITH_TTL since.
func WithTTL(ttl time.Duration) Option {
	return func(c *config) error {
		if ttl < 2*time.Millisecond || ttl%time.Millisecond != 0 {
			return fmt.Errorf("%w WithTTL: %v is not a whole number of milliseconds, two at least",
				framework.ErrInvalidOption, ttl)
		}
		c.ttl = ttl
		return nil
	}
}

// Persistent reports whether the node would belong to no session: package group refuses that.
func (c *config) Persistent() bool {
	return c.ttl > 0 || c.mode == framework.Persistent || c.mode == framework.PersistentSequential
}

// checkOptions returns an error if the options contradict each other.
func (c *config) checkOptions() error {
	if c.ttl == 0 {
		return nil
	}
	if c.mode != framework.Ephemeral || c.protected || c.takeover != Never {
		return fmt.Errorf("%w WithTTL: it goes with no other mode, no protection and no take-over",
			framework.ErrInvalidOption)
	}
	c.mode = framework.Container
	return nil
}
