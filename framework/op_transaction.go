package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// TransactionResult is the outcome of one operation of a transaction.
type TransactionResult struct {
	// Op is "create", "delete", "setData" or "check".
	Op string
	// Path is the path of the operation's node; after a sequential create it has the number.
	Path string
	// Stat is the Stat of a node changed by setData, or of a container or TTL node created. For other creates
	// servers return none.
	Stat Stat
	// Err is set if the transaction failed: the error of the operation that failed, nil for the operations before it,
	// and ErrNotAttempted for the operations after it.
	Err error
}

// ErrNotAttempted is the error of the operations after the operation that made a transaction fail.
var ErrNotAttempted = newSentinel("not attempted: an earlier operation of the transaction failed")

// TransactionError is the error of the operation that made a transaction fail. Find it with errors.As.
type TransactionError struct {
	// Index is the operation's index, from 0, among the given operations.
	Index int
	// Op is "create", "delete", "setData" or "check".
	Op  string
	Err error
}

func (e *TransactionError) Error() string {
	return fmt.Sprintf("operation %d (%s): %v", e.Index, e.Op, e.Err)
}

func (e *TransactionError) Unwrap() error { return e.Err }

// Transaction executes the operations atomically: all of them or none, and no client can read a state in between. It
// returns their results in order. A missing root of a namespace is created first, outside the transaction, as for a
// single operation.
//
// If the server refuses an operation, the error is an *OpError with that operation's path. It contains a
// [*TransactionError] with the operation's index, and matches the reason, ErrBadVersion for example. The results then
// have the outcome of each operation. Any other error comes without results.
//
// The transaction is repeated as the retry policy allows if it was certainly not executed. After an unknown outcome it
// is not repeated, since a repeat could fail because the first try succeeded: the error is ErrConnectionLoss.
// [Client.IdempotentTransaction] repeats in that case, too.
//
// The whole request must fit into the server's packet limit, otherwise the error is ErrTooLarge. Without
// operations the error is ErrBadArguments. Corresponds to Curator's transaction().forOperations.
func (c *Client) Transaction(ctx context.Context, ops ...TransactionOp) ([]TransactionResult, error) {
	return runForeground(ctx, newTransaction(c, ops))
}

// TransactionInBackground is [Client.Transaction] in the background: it queues the request and returns immediately. All
// errors are in the Pending.
func (c *Client) TransactionInBackground(ctx context.Context, ops ...TransactionOp) *Pending[txResults] {
	return startBackground(ctx, newTransaction(c, ops))
}

type txResults = []TransactionResult

// transaction has the operations of a transaction, and the methods that decode its reply and recover from its errors.
type transaction []TransactionOp

func newTransaction(c *Client, ops []TransactionOp) *operation[txResults] {
	if slices.ContainsFunc(ops, func(op TransactionOp) bool { return op.alternative != nil }) {
		ops = slices.Clone(ops) // switchOrSetData changes them
	}
	t := transaction(ops)
	o := &operation[txResults]{
		c: c, name: "transaction", mutates: true, unknownPolicy: unknownGiveUp,
	}
	if len(ops) == 0 {
		o.argumentError = badArguments("a transaction needs at least one operation")
		return o
	}
	o.path = ops[0].path
	var req jute.MultiRequest
	size := 0
	for i, op := range ops {
		fault := op.argumentError
		if op.c == nil {
			fault = fmt.Errorf("%w: an operation that was not made with TransactionOp", ErrNoClient)
		}
		if fault != nil && o.argumentError == nil {
			o.path, o.argumentError = op.path, &TransactionError{i, op.name, fault}
		}
		req.Ops = append(req.Ops, op.entry)
		size += op.dataSize
	}
	if o.argumentError == nil && !c.isZeroValue() {
		o.argumentError = c.checkRequestSize(size)
	}
	o.procedure = functionProcedure[txResults]{
		makeRequest: func() *wire.Call { return newCall(jute.OpMulti, &req) },
		decode:      t.decodeReply,
		recovery: func(err error) recoveryStep[txResults] {
			if step := t.switchOrSetData(err, req.Ops); step != nil {
				return step
			}
			return t.createMissingRoot(err)
		},
	}
	return o
}

// switchOrSetData returns the recovery step after the refusal of an operation with OrSetData: the transaction, which was
// not executed, is sent again with the create instead of the change of the data, or the other way round. The nodes of later
// such operations are read first, so that one more try is mostly enough. It returns nil for other refusals. requests has
// the requests of the operations.
func (t transaction) switchOrSetData(err error, requests []jute.MultiOp) recoveryStep[txResults] {
	var refused *TransactionError
	if !errors.As(err, &refused) {
		return nil
	}
	i := refused.Index
	if t[i].alternative == nil || !errors.Is(err, ErrNodeExists) && (t[i].name == "create" || !errors.Is(err, ErrNoNode)) {
		return nil
	}
	return func(ctx context.Context, r *operationRun[txResults]) (none txResults, again bool, _ error) {
		change := []int{i}
		var later []int
		var reads []*wire.Call
		for k := i + 1; k < len(t); k++ {
			if t[k].alternative != nil && !slices.ContainsFunc(t[:k], func(op TransactionOp) bool { return op.full == t[k].full }) {
				later, reads = append(later, k), append(reads, r.epoch.limitPatience(readCall(jute.OpExists, t[k].full)))
			}
		}
		replies, failed := awaitReplies(ctx, r.epoch, reads...)
		if failed != nil {
			return none, false, failed
		}
		for j, k := range later {
			if missing := errors.Is(readReplyError(replies[j]), ErrNoNode); missing == (t[k].name == "setData") {
				change = append(change, k)
			}
		}
		for _, k := range change {
			t[k] = *t[k].alternative
			requests[k] = t[k].entry
		}
		return none, true, nil
	}
}

// createMissingRoot returns the recovery step that creates a missing root of a namespace. It returns nil unless the
// root may be the reason of the refusal, and the refused operation would create the root if it were not in a
// transaction.
func (t transaction) createMissingRoot(err error) recoveryStep[txResults] {
	op := t.refusedOperation(err)
	if op == nil || !errors.Is(err, ErrNoNode) || op.c.view.namespace == "" ||
		op.name != "create" && (op.name == "delete" || op.path != "/") {
		return nil
	}
	return func(ctx context.Context, r *operationRun[txResults]) (none txResults, again bool, _ error) {
		made, failed := op.c.createRoot(ctx, r.epoch)
		prefix := op.c.view.prefix
		switch {
		case failed != nil:
			return none, false, failed
		case made, op.full == prefix, zkpath.Parent(op.full) == prefix:
			// Another client may have created the root in the meantime.
			return none, true, nil
		}
		return none, false, err
	}
}

// refusedOperation returns the operation that made the transaction fail, or nil.
func (t transaction) refusedOperation(err error) *TransactionOp {
	var refused *TransactionError
	if !errors.As(err, &refused) {
		return nil
	}
	return &t[refused.Index]
}

// decodeReply returns the results. A refused transaction comes here, too: the header of its reply reports success.
func (t transaction) decodeReply(_ int64, body []byte) ([]TransactionResult, error) {
	res := jute.MultiResponse{Asked: len(t)}
	if err := decodeRecord(body, res.Fields); err != nil {
		return nil, err
	}
	if len(res.Results) != len(t) {
		return nil, fmt.Errorf("%w: %d results for %d operations", ErrMalformedReply, len(res.Results), len(t))
	}
	results := make([]TransactionResult, len(t))
	var refused error
	for i, r := range res.Results {
		op := t[i]
		results[i] = TransactionResult{Op: op.name, Path: op.path, Stat: Stat(r.Stat)}
		switch {
		case r.Op != jute.OpError:
			if r.Path != "" {
				results[i].Path = op.c.userPath(r.Path)
			}
		case r.Err == jute.CodeOK: // this operation comes before the refused one
		case refused != nil:
			results[i].Err = ErrNotAttempted
		default:
			missing := op.full
			if op.name == "create" {
				missing = zkpath.Parent(op.full)
			}
			err := op.c.addChrootHint(codeError(r.Err), missing)
			if op.name == "create" && r.Err == jute.CodeNoNode && !errors.Is(err, ErrNoChroot) {
				err = missingParentError(op.path, err)
			}
			if op.guard && r.Err == jute.CodeNoNode {
				err = fmt.Errorf("%w: %w", ErrNotHeld, err)
			}
			results[i].Err = err
			refused = &OpError{"transaction", op.path, &TransactionError{i, op.name, err}}
		}
	}
	return results, refused
}

// TransactionOp is one operation of a transaction. Make it with [Client.TransactionOp].
type TransactionOp struct {
	c             *Client
	name          string
	path          string // as given by the caller
	full          string // with chroot and namespace
	entry         jute.MultiOp
	dataSize      int
	argumentError error // if set, every transaction with this operation fails with it
	guard         bool  // a check of a hold's node

	alternative *TransactionOp // with OrSetData: the create, or for the create the change of the data
}

// TransactionOps makes operations for a transaction.
type TransactionOps struct{ c *Client }

// TransactionOp begins an operation of a transaction. Chroot and namespace of this view apply to its path, whichever
// view executes the transaction. Corresponds to Curator's transactionOp.
func (c *Client) TransactionOp() TransactionOps { return TransactionOps{c} }

// Create begins a create.
func (t TransactionOps) Create() TransactionCreate { return TransactionCreate{c: t.c} }

// Delete begins a delete.
func (t TransactionOps) Delete() TransactionDelete { return TransactionDelete{c: t.c, version: -1} }

// SetData begins a change of data.
func (t TransactionOps) SetData() TransactionSetData { return TransactionSetData{c: t.c, version: -1} }

// Check begins a condition on a node.
func (t TransactionOps) Check() TransactionCheck { return TransactionCheck{c: t.c, version: -1} }

// TransactionCreate creates a node in a transaction. It has no protection and creates no parents. It is a value.
type TransactionCreate struct {
	c         *Client
	node      nodeSettings
	orSetData bool
}

// WithMode sets the kind of node. Default [Persistent].
func (b TransactionCreate) WithMode(mode CreateMode) TransactionCreate { b.node.mode = mode; return b }

// WithTTL sets the time after its last change at which the servers delete a node of a TTL mode, in whole milliseconds.
func (b TransactionCreate) WithTTL(ttl time.Duration) TransactionCreate { b.node.ttl = ttl; return b }

// WithACL sets the node's ACL. Default: the ACL from the client's ACL provider.
func (b TransactionCreate) WithACL(acl ...ACL) TransactionCreate {
	b.node.acl = append([]ACL{}, acl...)
	return b
}

// OrSetData makes the operation set the data if the node exists already; then [TransactionResult.Op] is "setData". The
// transaction is sent with the change of the data, and again if the server refuses that because there is no node: if
// several nodes may be missing, after one read of each in flight together. An existing node keeps its kind and its ACL.
// ErrBadArguments with a sequential mode, and in an IdempotentTransaction.
func (b TransactionCreate) OrSetData() TransactionCreate { b.orSetData = true; return b }

// Compressed compresses the data with the client's compression provider.
func (b TransactionCreate) Compressed() TransactionCreate {
	b.node.compression = compressionOn
	return b
}

// Uncompressed writes the data as they are, also if the client has [WithCompression].
func (b TransactionCreate) Uncompressed() TransactionCreate {
	b.node.compression = compressionOff
	return b
}

// ForPath returns the operation. If its arguments are invalid, the transaction fails. Nil data means the client's
// default data.
func (b TransactionCreate) ForPath(path string, data []byte) TransactionOp {
	full, err := b.c.fullPathOf(path, b.node.mode.isSequential())
	if err == nil {
		err = b.node.checkSettings()
	}
	if err == nil && full == b.c.view.chroot {
		err = badArguments("a client cannot create its own chroot: create %s with a client that has no "+
			"chroot", full)
	}
	if err == nil {
		data, err = b.c.encodeNodeData(full, data, b.node.compression)
	}
	if err == nil && b.orSetData && b.node.mode.isSequential() {
		err = badArguments("OrSetData with a sequential mode: the node never exists")
	}
	op := TransactionOp{c: b.c, name: "create", path: path, full: full, dataSize: len(data), argumentError: err}
	if err != nil {
		return op
	}
	op.entry = b.node.transactionEntry(b.c, full, data)
	if b.orSetData {
		set := op
		set.name, set.entry = "setData", setDataEntry(full, data, -1)
		set.alternative, op.alternative = &op, &set
		return set
	}
	return op
}

func setDataEntry(full string, data []byte, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpSetData, Request: &jute.SetDataRequest{Path: full, Data: data, Version: version}}
}

// TransactionDelete deletes a node in a transaction. It is a value.
type TransactionDelete struct {
	c       *Client
	version int32
}

// WithVersion makes the transaction fail with ErrBadVersion unless the node has this version. Default -1: any
// version.
func (b TransactionDelete) WithVersion(version int32) TransactionDelete {
	b.version = version
	return b
}

// ForPath returns the operation. If its arguments are invalid, the transaction fails.
func (b TransactionDelete) ForPath(path string) TransactionOp {
	op := newVersionOp(b.c, "delete", jute.OpDelete, path, b.version)
	if op.argumentError == nil && op.full == b.c.view.chroot {
		op.argumentError = errDeleteRoot
	}
	return op
}

// newVersionOp returns a delete or a check, whose arguments are a path and a version.
func newVersionOp(c *Client, name string, code int32, path string, version int32) TransactionOp {
	full, err := c.fullPath(path)
	op := jute.MultiOp{Op: code, Request: &jute.PathVersionRequest{Path: full, Version: version}}
	return TransactionOp{c: c, name: name, path: path, full: full, entry: op, argumentError: err}
}

// TransactionSetData replaces a node's data in a transaction. It is a value.
type TransactionSetData struct {
	c           *Client
	version     int32
	compression compressionChoice
}

// WithVersion makes the transaction fail with ErrBadVersion unless the node has this version. Default -1: any
// version.
func (b TransactionSetData) WithVersion(version int32) TransactionSetData {
	b.version = version
	return b
}

// Compressed compresses the data with the client's compression provider.
func (b TransactionSetData) Compressed() TransactionSetData { b.compression = compressionOn; return b }

// Uncompressed writes the data as they are, also if the client has [WithCompression].
func (b TransactionSetData) Uncompressed() TransactionSetData {
	b.compression = compressionOff
	return b
}

// ForPath returns the operation. If its arguments are invalid, the transaction fails. Nil data means the client's
// default data.
func (b TransactionSetData) ForPath(path string, data []byte) TransactionOp {
	full, err := b.c.fullPath(path)
	if err == nil {
		data, err = b.c.encodeNodeData(full, data, b.compression)
	}
	return TransactionOp{
		c: b.c, name: "setData", path: path, full: full, entry: setDataEntry(full, data, b.version),
		dataSize: len(data), argumentError: err,
	}
}

// TransactionCheck is a condition of a transaction: the node exists, with the version if one is given. It needs READ
// permission on the node. It is a value.
type TransactionCheck struct {
	c       *Client
	version int32
	guard   bool
}

// AsGuard makes the error match ErrNotHeld as well if the node does not exist: for the node of a hold. For authors of
// recipes.
func (b TransactionCheck) AsGuard() TransactionCheck { b.guard = true; return b }

// WithVersion makes the transaction fail with ErrBadVersion unless the node has this version. Default -1: any
// version.
func (b TransactionCheck) WithVersion(version int32) TransactionCheck { b.version = version; return b }

// ForPath returns the operation. If its arguments are invalid, the transaction fails.
func (b TransactionCheck) ForPath(path string) TransactionOp {
	op := newVersionOp(b.c, "check", jute.OpCheck, path, b.version)
	op.guard = b.guard
	return op
}
