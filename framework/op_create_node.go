package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// maxTTL is the longest time that fits into the server's encoding of TTL nodes.
const maxTTL = 0xffffffffff * time.Millisecond

// nodeSettings has the settings that creates share, in and outside of transactions.
type nodeSettings struct {
	mode CreateMode
	ttl  time.Duration
	acl  []ACL // nil: as the provider says
	pack compressionChoice
}

func (n nodeSettings) checkSettings() error {
	hasTTL := n.mode == PersistentTTL || n.mode == PersistentSequentialTTL
	switch {
	case n.mode < Persistent || n.mode > PersistentSequentialTTL:
		return badArguments("unknown mode %v", n.mode)
	case hasTTL && (n.ttl < time.Millisecond || n.ttl > maxTTL):
		return badArguments("mode %v needs WithTTL with a time from 1ms to %v, not %v", n.mode, maxTTL, n.ttl)
	case n.ttl%time.Millisecond != 0:
		return badArguments("WithTTL(%v) is not a whole number of milliseconds", n.ttl)
	case !hasTTL && n.ttl != 0:
		return badArguments("WithTTL needs the mode PersistentTTL or PersistentSequentialTTL, not %v", n.mode)
	case n.acl != nil && len(n.acl) == 0:
		return badArguments("WithACL needs at least one entry: ZooKeeper allows no empty ACL")
	}
	return nil
}

// operationCode is the operation code. Plain modes use create2, whose answer has the Stat.
func (n nodeSettings) operationCode() int32 {
	switch n.mode {
	case Container:
		return jute.OpCreateContainer
	case PersistentTTL, PersistentSequentialTTL:
		return jute.OpCreateTTL
	}
	return jute.OpCreate2
}

// createRecord returns the request's record, without the TTL of the TTL modes.
func (n nodeSettings) createRecord(c *Client, full string, data []byte) jute.CreateRequest {
	return jute.CreateRequest{Path: full, Data: data, ACL: c.aclForNode(n.acl, full), Flags: int32(n.mode)}
}

// transactionEntry returns the operation code and its record.
func (n nodeSettings) transactionEntry(c *Client, full string, data []byte) jute.MultiOp {
	op, req := n.operationCode(), n.createRecord(c, full, data)
	if op == jute.OpCreateTTL {
		withTTL := &jute.CreateTTLRequest{CreateRequest: req, TTL: n.ttl.Milliseconds()}
		return jute.MultiOp{Op: op, Request: withTTL}
	}
	return jute.MultiOp{Op: op, Request: &req}
}

// createCall returns the request of a create outside a transaction.
func (n nodeSettings) createCall(c *Client, full string, data []byte) *wire.Call {
	op := n.operationCode()
	if op == jute.OpCreateTTL {
		return newCall(op, n.transactionEntry(c, full, data).Request)
	}
	req := n.createRecord(c, full, data)
	return &wire.Call{Op: op, Body: jute.Encode(req.Fields)}
}

// aclForNode returns the ACL of a new node: acl or, if that is nil, the provider's.
func (c *Client) aclForNode(acl []ACL, full string) []jute.ACL {
	if provider := c.core.cfg.aclProvider; acl == nil && provider != nil {
		acl = provider(full)
	}
	if len(acl) == 0 {
		return openACL
	}
	return toWireACL(acl)
}
