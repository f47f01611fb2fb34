package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// TransactionOp is one operation of a transaction. Make it with [Client.TransactionOp].
type TransactionOp struct {
	c     *Client
	name  string
	path  string // as given
	full  string // as the server knows it
	op    jute.MultiOp
	fault error
}

// TransactionOps makes operations for a transaction.
type TransactionOps struct{ c *Client }

// TransactionOp begins an operation of a transaction. Paths are those of this view, whichever view executes it. Corresponds to Curator's transactionOp.
func (c *Client) TransactionOp() TransactionOps { return TransactionOps{c} }

// Create begins a create.
func (t TransactionOps) Create() TransactionCreate { return TransactionCreate{c: t.c} }

// Delete begins a delete.
func (t TransactionOps) Delete() TransactionDelete { return TransactionDelete{c: t.c, version: -1} }

// SetData begins a change of data.
func (t TransactionOps) SetData() TransactionSetData { return TransactionSetData{c: t.c, version: -1} }

// Check begins a condition.
func (t TransactionOps) Check() TransactionCheck { return TransactionCheck{c: t.c, version: -1} }

// TransactionCreate creates a node in a transaction. There is no protection there, and no parents are made.
type TransactionCreate struct {
	c    *Client
	node node
}

// WithMode says what kind of node.
func (b TransactionCreate) WithMode(mode CreateMode) TransactionCreate { b.node.mode = mode; return b }

// WithTTL says how long a node of a TTL mode lives after its last change.
func (b TransactionCreate) WithTTL(ttl time.Duration) TransactionCreate { b.node.ttl = ttl; return b }

// WithACL gives the node's ACL. Default: what the client's ACL provider says.
func (b TransactionCreate) WithACL(acl ...ACL) TransactionCreate {
	b.node.acl = append([]ACL{}, acl...)
	return b
}

// Compressed packs the data with the client's compression provider.
func (b TransactionCreate) Compressed() TransactionCreate { b.node.pack = packYes; return b }

// Uncompressed writes the data as they are, also with [WithCompression].
func (b TransactionCreate) Uncompressed() TransactionCreate { b.node.pack = packNo; return b }

// ForPath makes the operation. Nil data means the client's default data.
func (b TransactionCreate) ForPath(path string, data []byte) TransactionOp {
	full, err := b.c.fullPathOf(path, b.node.mode.sequential())
	if err == nil {
		err = b.node.fault()
	}
	if err == nil && b.c.view.isChroot(full) {
		err = badArguments("the chroot is not made by who uses it: create %s without a chroot", full)
	}
	if err == nil {
		data, err = b.c.outgoing(full, data, b.node.pack)
	}
	op := TransactionOp{c: b.c, name: "create", path: path, full: full, fault: err}
	if err == nil {
		op.op = b.node.request(b.c, full, data)
	}
	return op
}

// TransactionDelete deletes a node in a transaction.
type TransactionDelete struct {
	c       *Client
	version int32
}

// WithVersion demands a version of the node. Default -1: any.
func (b TransactionDelete) WithVersion(version int32) TransactionDelete {
	b.version = version
	return b
}

// ForPath makes the operation.
func (b TransactionDelete) ForPath(path string) TransactionOp {
	full, err := b.c.fullPath(path)
	if err == nil && b.c.view.isChroot(full) {
		err = errDeleteRoot
	}
	req := &jute.PathVersionRequest{Path: full, Version: b.version}
	return TransactionOp{c: b.c, name: "delete", path: path, full: full, op: jute.MultiOp{Op: jute.OpDelete, Request: req}, fault: err}
}

// TransactionSetData replaces a node's data in a transaction.
type TransactionSetData struct {
	c       *Client
	version int32
	pack    packing
}

// WithVersion demands a version of the node. Default -1: any.
func (b TransactionSetData) WithVersion(version int32) TransactionSetData {
	b.version = version
	return b
}

// Compressed packs the data with the client's compression provider.
func (b TransactionSetData) Compressed() TransactionSetData { b.pack = packYes; return b }

// Uncompressed writes the data as they are, also with [WithCompression].
func (b TransactionSetData) Uncompressed() TransactionSetData { b.pack = packNo; return b }

// ForPath makes the operation. Nil data means the client's default data.
func (b TransactionSetData) ForPath(path string, data []byte) TransactionOp {
	full, err := b.c.fullPath(path)
	if err == nil {
		data, err = b.c.outgoing(full, data, b.pack)
	}
	req := &jute.SetDataRequest{Path: full, Data: data, Version: b.version}
	return TransactionOp{c: b.c, name: "setData", path: path, full: full, op: jute.MultiOp{Op: jute.OpSetData, Request: req}, fault: err}
}

// TransactionCheck is a condition in a transaction: the node exists, with the version if one is given. It needs the right to read the node.
type TransactionCheck struct {
	c       *Client
	version int32
}

// WithVersion demands a version of the node. Default -1: any.
func (b TransactionCheck) WithVersion(version int32) TransactionCheck { b.version = version; return b }

// ForPath makes the operation.
func (b TransactionCheck) ForPath(path string) TransactionOp {
	full, err := b.c.fullPath(path)
	req := &jute.PathVersionRequest{Path: full, Version: b.version}
	return TransactionOp{c: b.c, name: "check", path: path, full: full, op: jute.MultiOp{Op: jute.OpCheck, Request: req}, fault: err}
}
