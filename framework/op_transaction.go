package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

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
	return foreground(ctx, c, newTransaction(ops))
}

// TransactionInBackground queues a transaction and returns.
func (c *Client) TransactionInBackground(ctx context.Context, ops ...TransactionOp) *Pending[[]TransactionResult] {
	return background(ctx, c, newTransaction(ops))
}

// transaction is the operations of a transaction.
type transaction []TransactionOp

func newTransaction(ops []TransactionOp) *operation[[]TransactionResult] {
	t := transaction(ops)
	o := &operation[[]TransactionResult]{
		name: "transaction", write: true, doubt: doubtEnds, decode: t.decode, after: t.makeRoot,
	}
	if len(ops) == 0 {
		o.fault = badArguments("a transaction without operations")
		return o
	}
	o.path = ops[0].path
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
	o.request = func(*epoch) *wire.Call { return newCall(jute.OpMulti, &req) }
	return o
}

// makeRoot is the step after a transaction was refused for want of a namespace's root.
func (t transaction) makeRoot(err error) step[[]TransactionResult] {
	op := t.rootless(err)
	if op == nil {
		return nil
	}
	return func(ctx context.Context, r *run[[]TransactionResult]) (none []TransactionResult, again bool, _ error) {
		made, failed := op.c.root(ctx, r.e)
		prefix := op.c.view.prefix()
		switch {
		case failed != nil:
			return none, false, failed
		case made, op.full == prefix, zkpath.Parent(op.full) == prefix: // somebody else may have made it meanwhile
			return none, true, nil
		}
		return none, false, err
	}
}

// refusedBy returns the operation by which a transaction was refused, or nil.
func (t transaction) refusedBy(err error) *TransactionOp {
	var refused *TransactionError
	if !errors.As(err, &refused) {
		return nil
	}
	return &t[refused.Index]
}

// rootless returns the operation by which a transaction was refused, if by itself it would make the root of its
// namespace; otherwise nil.
func (t transaction) rootless(err error) *TransactionOp {
	op := t.refusedBy(err)
	if op == nil || !errors.Is(err, ErrNoNode) || op.c.view.namespace == "" ||
		op.name != "create" && (op.name == "delete" || op.path != "/") {
		return nil
	}
	return op
}

// decode returns the results, also those of a transaction that was refused: the reply's header says success then, too.
func (t transaction) decode(_ int64, body []byte) ([]TransactionResult, error) {
	res := jute.MultiResponse{Asked: len(t)}
	if err := decode(body, &res); err != nil {
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
		case r.Err == jute.CodeOK: // before the failed one
		case refused != nil:
			results[i].Err = ErrNotAttempted
		default:
			err := op.c.view.absent(codeError(r.Err), op.needed())
			if op.name == "create" && r.Err == jute.CodeNoNode && !errors.Is(err, ErrNoChroot) {
				err = missingParent(op.path, err)
			}
			results[i].Err = err
			refused = &OpError{"transaction", op.path, &TransactionError{i, op.name, err}}
		}
	}
	return results, refused
}
