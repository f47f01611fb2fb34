package leader

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Errors of this package, and the causes of the end of a term's context. Use errors.Is.
var (
	// ErrReleased is the cause if the leader has ended the term itself: by Resign, by leaving the election, or
	// because the selector's function has returned.
	ErrReleased = framework.ErrReleased
	// Causes of a lost term. ErrSuspended: the connection is lost, with the policy framework.SuspendedIsLoss.
	// ErrSessionLost: the session is lost, or may have expired. ErrNodeDeleted: another client has deleted the
	// leader's node.
	ErrSuspended   = framework.ErrSuspended
	ErrSessionLost = framework.ErrSessionLost
	ErrNodeDeleted = framework.ErrNodeDeleted
	// ErrSequenceExhausted is returned if the sequence numbers below the election's path are used up: delete the node
	// at that path while it is not in use.
	ErrSequenceExhausted = line.ErrSequenceExhausted
	// ErrNotReleased is in the error of a [Selector] whose function has done its work under its term, when the server
	// then refuses to delete the leader's node (ErrNoAuth). The node stays first in the line, and no other
	// participant leads, until the session ends.
	ErrNotReleased = line.ErrNotReleased
	// ErrSelfWait is returned for a [Selector] that would wait for itself: its context belongs to the term of another
	// Selector of the same election, or to a mutex at the same path, which would have to be released first.
	ErrSelfWait = line.ErrSelfWait
	// ErrLeft is returned after a [Latch] has left the election.
	ErrLeft = errors.New("the latch has left the election: make a new one to join again")
	// ErrRunning is returned by a second Run of a [Selector] while the first has not returned.
	ErrRunning = errors.New("the selector is running already")
)

// Option configures [NewLatch], [NewSelector] and [Campaign]. If one is given several times the last counts, unless
// documented otherwise.
type Option func(*config) error

type config struct {
	id       *string
	loss     framework.LossPolicy
	listener *Listener
	foreign  func(name string) bool
}

// WithID sets the participant's ID, which [Participant] and [Observe] show: a host name, say, or the leader's
// address. It need not be unique. Default: "" for a latch, and the client's default data for a selector, both as in
// Curator.
func WithID(id string) Option {
	return func(c *config) error {
		if !utf8.ValidString(id) {
			return fmt.Errorf("%w WithID: %q is not UTF-8, and participants in Java could not read it",
				framework.ErrInvalidOption, id)
		}
		c.id = &id
		return nil
	}
}

// WithLossPolicy sets whether a term outlives a lost connection. Default [framework.SuspendedIsLoss], as in Curator:
// the term ends when the connection is lost (cause ErrSuspended). With [framework.SessionOnly] the term lasts until
// its session may have expired, by the client's own clock; the restart of one server ends no term.
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(c *config) (err error) {
		c.loss, err = line.CheckLossPolicy(p)
		return err
	}
}

// WithListener sets functions that a [Latch] calls at the beginning and at the end of each term. Default:
// none.
func WithListener(l Listener) Option {
	return func(c *config) error {
		if l.OnLeader == nil && l.OnNotLeader == nil {
			return fmt.Errorf("%w WithListener: both functions are nil; leave the option out",
				framework.ErrInvalidOption)
		}
		c.listener = &l
		return nil
	}
}

// WithForeignContenders adds names of contenders' nodes in this directory to those of this package and of Curator:
// while another implementation is being replaced, or for good. If is(name) is true, the name counts by the ten digits
// at its end; without them it is ignored. is may be called at any time, on any goroutine, and must always return the
// same result for a name. Default: none; a child with another name is ignored. Given several times, a name counts if
// one of the functions returns true.
//
// The other implementation must also count the nodes of this package, which are named _c_, a UUID, -latch- or -lock-
// and ten digits, or there are two leaders.
func WithForeignContenders(is func(name string) bool) Option {
	return func(c *config) (err error) {
		c.foreign, err = line.AddForeign(c.foreign, is)
		return err
	}
}

// configure checks the arguments of a constructor and fills in l.
func configure(l *line.Line, client *framework.Client, path, name string, opts []Option) (config, error) {
	c := config{loss: framework.SuspendedIsLoss}
	l.Client, l.Dir, l.Name, l.Order = client, path, name, line.Order{Names: []string{name}}
	err := line.Configure(client, path, &c, opts)
	l.Loss, l.Order.Foreign = c.loss, c.foreign
	if c.id != nil {
		l.Data = append([]byte{}, *c.id...)
	}
	return c, err
}

func wrapError(path, verb string, err error) error { return line.WrapError("leader", path, verb, err) }
