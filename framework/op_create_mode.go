package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// CreateMode is the kind of node to create. Corresponds to CreateMode of ZooKeeper.
type CreateMode int32

const (
	// Persistent nodes stay until they are deleted. Default.
	Persistent = CreateMode(jute.ModePersistent)
	// Ephemeral nodes go with the session. They have no children.
	Ephemeral = CreateMode(jute.ModeEphemeral)
	// PersistentSequential nodes get a number of ten digits after their name, which grows from node to node
	// below one parent.
	PersistentSequential = CreateMode(jute.ModePersistentSequential)
	// EphemeralSequential is both.
	EphemeralSequential = CreateMode(jute.ModeEphemeralSequential)
	// Container nodes are removed by the server some time after their last child has gone.
	Container = CreateMode(jute.ModeContainer)
	// PersistentTTL nodes are removed by the server when they have no children and were not changed for a time,
	// see WithTTL. The server must have been started with zookeeper.extendedTypesEnabled.
	PersistentTTL = CreateMode(jute.ModePersistentTTL)
	// PersistentSequentialTTL is both.
	PersistentSequentialTTL = CreateMode(jute.ModePersistentSequentialTTL)
)

func (m CreateMode) String() string {
	return nameOf("CreateMode", m, "Persistent", "Ephemeral", "PersistentSequential", "EphemeralSequential",
		"Container", "PersistentTTL", "PersistentSequentialTTL")
}

func (m CreateMode) valid() bool { return m >= Persistent && m <= PersistentSequentialTTL }

// ephemeral says whether nodes of this mode go with the session.
func (m CreateMode) ephemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// sequential says whether the server appends a number to the name.
func (m CreateMode) sequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialTTL
}

func (m CreateMode) hasTTL() bool { return m == PersistentTTL || m == PersistentSequentialTTL }

// maxTTL is the longest time that fits into the server's encoding of TTL nodes.
const maxTTL = 0xffffffffff * time.Millisecond

// node is what creates inside and outside of transactions have in common.
type node struct {
	mode CreateMode
	ttl  time.Duration
	acl  []ACL // nil: what the provider says
	pack packing
}

func (n node) fault() error {
	switch {
	case !n.mode.valid():
		return badArguments("unknown mode %v", n.mode)
	case n.mode.hasTTL() && (n.ttl < time.Millisecond || n.ttl > maxTTL):
		return badArguments("mode %v needs WithTTL with a time from 1ms to %v, not %v", n.mode, maxTTL, n.ttl)
	case n.ttl%time.Millisecond != 0:
		return badArguments("WithTTL of %v: servers count whole milliseconds", n.ttl)
	case !n.mode.hasTTL() && n.ttl != 0:
		return badArguments("WithTTL needs the mode PersistentTTL or PersistentSequentialTTL, not %v", n.mode)
	case n.acl != nil && len(n.acl) == 0:
		return badArguments("WithACL without an ACL: a node without one does not exist")
	}
	return nil
}

// request returns the operation and its record. Plain modes use create2, whose answer has the Stat.
func (n node) request(c *Client, full string, data []byte) jute.MultiOp {
	acl := wireACL(n.acl)
	if n.acl == nil {
		acl = c.aclFor(full)
	}
	req := jute.CreateRequest{Path: full, Data: data, ACL: acl, Flags: int32(n.mode)}
	switch {
	case n.mode == Container:
		return jute.MultiOp{Op: jute.OpCreateContainer, Request: &req}
	case n.mode.hasTTL():
		withTTL := &jute.CreateTTLRequest{CreateRequest: req, TTL: n.ttl.Milliseconds()}
		return jute.MultiOp{Op: jute.OpCreateTTL, Request: withTTL}
	}
	return jute.MultiOp{Op: jute.OpCreate2, Request: &req}
}
