package framework

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Stat has a node's metadata: its transactions, times, versions and sizes.
type Stat struct {
	// Czxid is the transaction that created the node, Mzxid the last transaction that set its data.
	Czxid, Mzxid int64
	// Ctime and Mtime are the times of these transactions by the server's clock, in milliseconds since 1970.
	Ctime, Mtime int64
	// Version counts changes of the data, Cversion of the list of children, Aversion of the ACL.
	Version, Cversion, Aversion int32
	// EphemeralOwner is the id of an ephemeral node's session. For any other node it is 0, because servers also send 0
	// for containers and TTL nodes.
	EphemeralOwner int64
	// DataLength is the size of the data in bytes, NumChildren the number of children.
	DataLength, NumChildren int32
	// Pzxid is the transaction that last changed the list of children.
	Pzxid int64
}

// Created returns the time of creation by the server's clock.
func (s Stat) Created() time.Time { return time.UnixMilli(s.Ctime) }

// Modified returns the time of the last change of the data by the server's clock.
func (s Stat) Modified() time.Time { return time.UnixMilli(s.Mtime) }

// decodeStat decodes a reply that consists of a Stat.
func decodeStat(_ int64, body []byte) (Stat, error) {
	var res jute.StatResponse
	err := decodeRecord(body, res.Fields)
	return Stat(res.Stat), err
}

// CreateMode is the kind of a new node. Corresponds to ZooKeeper's CreateMode.
type CreateMode int32

const (
	// Persistent nodes stay until a client deletes them. This is the default.
	Persistent = CreateMode(jute.ModePersistent)
	// Ephemeral nodes are deleted when their session ends. They have no children.
	Ephemeral = CreateMode(jute.ModeEphemeral)
	// PersistentSequential nodes are persistent, and the servers append a number of ten digits to their names. Below one
	// parent the number grows from node to node.
	PersistentSequential = CreateMode(jute.ModePersistentSequential)
	// EphemeralSequential nodes are ephemeral and get such a number as well.
	EphemeralSequential = CreateMode(jute.ModeEphemeralSequential)
	// Container nodes are deleted by the servers some time after their last child was deleted.
	Container = CreateMode(jute.ModeContainer)
	// PersistentTTL nodes are deleted by the servers when they have no children and were not changed for the time of
	// WithTTL. Servers need the setting zookeeper.extendedTypesEnabled.
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

// nodeSettings has the settings of a new node that creates inside and outside of transactions have in common.
type nodeSettings struct {
	mode        CreateMode
	ttl         time.Duration
	acl         []ACL // nil: from the client's ACL provider
	compression compressionChoice
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

// operationCode returns the protocol's code of the create. Most modes use create2, whose reply has the node's Stat.
func (n nodeSettings) operationCode() int32 {
	switch n.mode {
	case Container:
		return jute.OpCreateContainer
	case PersistentTTL, PersistentSequentialTTL:
		return jute.OpCreateTTL
	}
	return jute.OpCreate2
}

// createRecord returns the record of the request, without a TTL.
func (n nodeSettings) createRecord(c *Client, full string, data []byte) jute.CreateRequest {
	return jute.CreateRequest{Path: full, Data: data, ACL: c.aclForNode(n.acl, full), Flags: int32(n.mode)}
}

// transactionEntry returns the create as an operation of a transaction.
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

// ReadsItsOwn reports whether this client may read a node that it creates at path without WithACL. It judges by the ACL
// alone, without a request: READ permission for every client, or for the creator. For authors of recipes.
func (c *Client) ReadsItsOwn(path string) bool { return c.mayRead(path, "world", "auth") }

// AllMayRead reports whether every client may read a node that this one creates at path without WithACL. It judges by
// the ACL alone, without a request. For authors of recipes.
func (c *Client) AllMayRead(path string) bool { return c.mayRead(path, "world") }

// mayRead reports whether the ACL of a new node at path has READ permission with one of the schemes.
func (c *Client) mayRead(path string, schemes ...string) bool {
	full, err := c.fullPath(path)
	return err == nil && !c.isZeroValue() && slices.ContainsFunc(c.aclForNode(nil, full), func(a jute.ACL) bool {
		return a.Perms&jute.PermRead != 0 && slices.Contains(schemes, a.Scheme)
	})
}

// compressionChoice determines whether an operation compresses or decompresses data.
type compressionChoice int8

const (
	compressionDefault compressionChoice = iota // only if the client has WithCompression
	compressionOn
	compressionOff
)

func (c *Client) usesCompression(p compressionChoice) bool {
	return p == compressionOn || p == compressionDefault && !c.isZeroValue() && c.core.cfg.compressed
}

// encodeNodeData returns the data to send for a node: instead of nil the client's default data, and compressed if p says
// so. The error is ErrTooLarge if they fit in no request.
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

// checkRequestSize returns ErrTooLarge if this number of data bytes does not fit into a request. It is called before the
// data are copied into one.
func (c *Client) checkRequestSize(bytes int) error {
	return replyError(wire.Reply{Err: wire.Fits(bytes, c.core.cfg.maxFrame)})
}

// decodeNodeData returns a node's data, decompressed if p says so. Empty data are returned as they are: the
// parents that operations create have them, and are never compressed.
func (c *Client) decodeNodeData(full string, data []byte, p compressionChoice) ([]byte, error) {
	return c.decodeNodeDataUpTo(full, data, p, c.core.cfg.decompressedLimit)
}

// decodeNodeDataUpTo is decodeNodeData with another limit, in bytes, than [WithDecompressedLimit].
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
