package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
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

// Path returns the path as it was given.
func (op TransactionOp) Path() string { return op.path }

// TransactionResult is the outcome of one operation of a transaction.
type TransactionResult struct {
	// Op is "create", "delete", "setData" or "check".
	Op string
	// Path is that of the operation's node; of a sequential create, with the number.
	Path string
	// Stat is that of the node changed by setData, or of a container or TTL node created. Servers give none for other creates.
	Stat Stat
	// Err is why this operation failed, in a transaction that failed; nil for those before the failed one, ErrNotAttempted for those behind it.
	Err error
}

// ErrNotAttempted is the error of those operations in a failed transaction that stand behind the failed one.
var ErrNotAttempted = named("not attempted: an operation before it failed")

// TransactionError says which operation a transaction failed by. Find it with errors.As.
type TransactionError struct {
	// Index counts from 0, in the order in which the operations were given.
	Index int
	// Op is that operation: "create", "delete", "setData" or "check".
	Op  string
	Err error
}

func (e *TransactionError) Error() string {
	return fmt.Sprintf("operation %d (%s): %v", e.Index, e.Op, e.Err)
}

func (e *TransactionError) Unwrap() error { return e.Err }

// TransactionOps makes operations for a transaction.
type TransactionOps struct{ c *Client }

// TransactionOp begins an operation of a transaction. Paths are those of this view, whichever view executes it. Corresponds to Curator's transactionOp.
func (c *Client) TransactionOp() TransactionOps { return TransactionOps{c} }

// Transaction executes the operations as one: all of them or none, nobody sees a part. It returns their results in order. The root of a namespace
// is made first if it is missing, by itself, as for a single operation.
//
// When one is refused, the error is an *OpError with its path, containing a [*TransactionError] with its index, and it matches the reason
// (errors.Is(err, ErrBadVersion), for example); the results then say per operation what happened. Any other error comes without results.
//
// The retry policy is asked when the transaction was certainly not executed. After an unknown outcome it is not repeated, since a repeat
// could fail because of its own success: the error is ErrConnectionLoss. [Client.IdempotentTransaction] is repeated.
//
// The whole request must fit into the server's packet limit, else it is ErrTooLarge. No operations at all are ErrBadArguments.
// Corresponds to Curator's transaction().forOperations.
func (c *Client) Transaction(ctx context.Context, ops ...TransactionOp) ([]TransactionResult, error) {
	o, t := c.transaction(ops)
	results, err := foreground(ctx, c, o)
	return t.outcome(results, err)
}

// TransactionInBackground queues a transaction and returns.
func (c *Client) TransactionInBackground(ctx context.Context, ops ...TransactionOp) *Pending[[]TransactionResult] {
	o, t := c.transaction(ops)
	o.final = t.outcome
	return background(ctx, c, o)
}

// transaction is a multi on its way.
type transaction struct {
	ops    []TransactionOp
	failed []TransactionResult // of the last try, if the server refused it
}

func (c *Client) transaction(ops []TransactionOp) (*operation[[]TransactionResult], *transaction) {
	t := &transaction{ops: ops}
	o := &operation[[]TransactionResult]{name: "transaction", write: true, once: true}
	if len(ops) == 0 {
		o.fault = badArguments("a transaction without operations")
	}
	var req jute.MultiRequest
	for i, op := range ops {
		fault := op.fault
		if op.c == nil {
			fault = fmt.Errorf("%w: an operation that was not made with TransactionOp", ErrNoClient)
		}
		if fault != nil && o.fault == nil {
			o.path, o.fault = op.path, &TransactionError{i, op.name, fault}
		}
		req.Ops = append(req.Ops, op.op)
	}
	if len(ops) > 0 && o.fault == nil {
		o.path = ops[0].path
	}
	o.call = func(*epoch) *wire.Call {
		t.failed = nil
		return &wire.Call{Op: jute.OpMulti, Body: jute.Marshal(&req)}
	}
	o.wants = func(err error) bool { return t.rootless(err) != nil }
	o.next = func(ctx context.Context, e *epoch, err error) (none []TransactionResult, again bool, _ error) {
		op := t.rootless(err)
		made, err2 := op.c.root(ctx, e)
		if err2 != nil {
			return none, false, err2
		}
		if made || op.full == op.c.view.prefix() || zkpath.Parent(op.full) == op.c.view.prefix() {
			return none, true, nil // somebody else may have made it meanwhile
		}
		return none, false, err
	}
	o.read = func(_ int64, body []byte) ([]TransactionResult, error) {
		results, err := t.read(body)
		for i, res := range results {
			if res.Err != nil { // the reply's header says success in this case too
				t.failed = results
				return nil, &OpError{"transaction", ops[i].path, &TransactionError{i, ops[i].name, res.Err}}
			}
		}
		return results, err
	}
	return o, t
}

// rootless returns the operation by which a transaction was refused, if it is one that makes the root of its namespace when it stands alone; else nil.
func (t *transaction) rootless(err error) *TransactionOp {
	var refused *TransactionError
	if !errors.Is(err, ErrNoNode) || !errors.As(err, &refused) {
		return nil
	}
	op := &t.ops[refused.Index]
	if op.c.view.namespace != "" && (op.name == "create" || op.name != "delete" && op.path == "/") {
		return op
	}
	return nil
}

// read decodes the results, of a failed transaction too.
func (t *transaction) read(body []byte) ([]TransactionResult, error) {
	res := jute.MultiResponse{Asked: len(t.ops)}
	if err := decode(body, &res); err != nil {
		return nil, err
	}
	if len(res.Results) != len(t.ops) {
		return nil, fmt.Errorf("%w: %d results for %d operations", ErrMalformedReply, len(res.Results), len(t.ops))
	}
	results := make([]TransactionResult, len(t.ops))
	failed := false
	for i, r := range res.Results {
		op := t.ops[i]
		results[i] = TransactionResult{Op: op.name, Path: op.path, Stat: Stat(r.Stat)}
		switch {
		case r.Op != jute.OpError:
			if r.Path != "" {
				results[i].Path = op.c.userPath(r.Path)
			}
		case r.Err == jute.CodeOK: // before the failed one
		case failed:
			results[i].Err = ErrNotAttempted
		default:
			failed = true
			results[i].Err = op.c.view.absent(codeError(r.Err), op.needed())
			if op.name == "create" && r.Err == jute.CodeNoNode && !errors.Is(results[i].Err, ErrNoChroot) {
				results[i].Err = missingParent(op.path, results[i].Err)
			}
		}
	}
	return results, nil
}

// outcome adds the results of a refused transaction.
func (t *transaction) outcome(results []TransactionResult, err error) ([]TransactionResult, error) {
	var refused *TransactionError
	if err != nil && errors.As(err, &refused) {
		return t.failed, err
	}
	return results, err
}

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
	full, err := b.c.fullPathOf(path, b.node.mode.IsSequential())
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
