package framework

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Stat is a node's metadata.
type Stat struct {
	// Czxid and Mzxid are the transactions that created and last changed the node.
	Czxid, Mzxid int64
	// Ctime and Mtime are the times of these transactions by the server's clock, in milliseconds since 1970.
	Ctime, Mtime int64
	// Version counts changes of the data, Cversion of the list of children, Aversion of the ACL.
	Version, Cversion, Aversion int32
	// EphemeralOwner is the session of an ephemeral node, and 0 for any other node: servers show containers
	// and TTL nodes like persistent nodes.
	EphemeralOwner int64
	// DataLength is the length of the data in bytes, NumChildren the number of children.
	DataLength, NumChildren int32
	// Pzxid is the transaction that last changed the list of children.
	Pzxid int64
}

// Created returns the time of creation by the server's clock.
func (s Stat) Created() time.Time { return time.UnixMilli(s.Ctime) }

// Modified returns the time of the last change of the data by the server's clock.
func (s Stat) Modified() time.Time { return time.UnixMilli(s.Mtime) }

// decodeStat decodes replies that are a Stat and nothing else.
func decodeStat(_ int64, body []byte) (Stat, error) {
	var res jute.StatResponse
	err := decodeRecord(body, res.Fields)
	return Stat(res.Stat), err
}

// CreateMode is the kind of node to create. Corresponds to CreateMode of ZooKeeper.
type CreateMode int32

const (
	// Persistent nodes stay until they are deleted. Default.
	Persistent = CreateMode(jute.ModePersistent)
	// Ephemeral nodes are deleted when their session ends. They have no children.
	Ephemeral = CreateMode(jute.ModeEphemeral)
	// PersistentSequential nodes get a number of ten digits after their name. The number grows from node to
	// node below one parent.
	PersistentSequential = CreateMode(jute.ModePersistentSequential)
	// EphemeralSequential nodes are ephemeral and get such a number.
	EphemeralSequential = CreateMode(jute.ModeEphemeralSequential)
	// Container nodes are deleted by the server some time after their last child is gone.
	Container = CreateMode(jute.ModeContainer)
	// PersistentTTL nodes are deleted by the server when they have no children and were not changed for a
	// time, see WithTTL. The server must have been started with zookeeper.extendedTypesEnabled.
	PersistentTTL = CreateMode(jute.ModePersistentTTL)
	// PersistentSequentialTTL nodes are PersistentTTL nodes that get a number as well.
	PersistentSequentialTTL = CreateMode(jute.ModePersistentSequentialTTL)
)

func (m CreateMode) String() string {
	return enumName("CreateMode", m, "Persistent", "Ephemeral", "PersistentSequential", "EphemeralSequential",
		"Container", "PersistentTTL", "PersistentSequentialTTL")
}

func (m CreateMode) isEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// isSequential reports whether the server appends a number to the name.
func (m CreateMode) isSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialTTL
}

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

// ReadsItsOwn reports whether this client may read a node that it creates at path without an ACL of its own, judged by
// the ACL alone, without asking a server: it lets every client read, or the creator. For authors of recipes.
func (c *Client) ReadsItsOwn(path string) bool {
	full, err := c.fullPath(path)
	return err == nil && !c.isZeroValue() && slices.ContainsFunc(c.aclForNode(nil, full), func(a jute.ACL) bool {
		return a.Perms&jute.PermRead != 0 && (a.Scheme == "world" || a.Scheme == "auth")
	})
}

// compressionChoice reports whether an operation compresses or decompresses data: as the client does by default, or
// as its builder says.
type compressionChoice int8

const (
	compressionDefault compressionChoice = iota
	compressionOn
	compressionOff
)

func (c *Client) usesCompression(p compressionChoice) bool {
	return p == compressionOn || p == compressionDefault && !c.isZeroValue() && c.core.cfg.compressed
}

// encodeNodeData returns the data to send for a node: the client's default data for nil, compressed if it should
// be. Data that fit in no request are ErrTooLarge.
func (c *Client) encodeNodeData(full string, data []byte, p compressionChoice) ([]byte, error) {
	if data == nil {
		data = c.core.cfg.defaultData
	}
	if !c.usesCompression(p) {
		return data, c.checkRequestSize(len(data))
	}
	packed, err := c.core.cfg.compression.Compress(full, data)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if packed == nil {
		packed = []byte{}
	}
	return packed, c.checkRequestSize(len(packed))
}

// checkRequestSize returns ErrTooLarge for data of more bytes than a request can have, before they are copied into
// one.
func (c *Client) checkRequestSize(bytes int) error {
	return replyError(wire.Reply{Err: wire.Fits(bytes, c.core.cfg.maxFrame)})
}

// decodeNodeData returns a node's data, decompressed if they should be. Empty data are never compressed.
func (c *Client) decodeNodeData(full string, data []byte, p compressionChoice) ([]byte, error) {
	return c.decodeNodeDataUpTo(full, data, p, c.core.cfg.decompressedLimit)
}

func (c *Client) decodeNodeDataUpTo(full string, data []byte, p compressionChoice, limit int) ([]byte, error) {
	if len(data) == 0 || !c.usesCompression(p) {
		return data, nil
	}
	plain, err := decompressUpTo(c.core.cfg.compression, full, data, limit)
	if err != nil && !errors.Is(err, ErrDecompress) {
		err = fmt.Errorf("%w: %w", ErrDecompress, err)
	}
	return plain, err
}
