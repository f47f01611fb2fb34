package framework

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// IdempotentTransaction is [Client.Transaction], but is also repeated after an unknown outcome. When a try's reply was
// lost and the repeat is refused, the client reads the nodes:
//
//   - If they are as that try would have left them, all changed by one transaction since the call began, the call
//     succeeds.
//   - If one of them proves, in the same session, that no try was executed, the error is the refusal.
//   - Otherwise the error is ErrConnectionLoss, as of Transaction.
//
// A refusal before any reply was lost is the error, whatever the nodes contain.
//
// There is an exception: another client may execute exactly the same transaction while the reply is lost, or so shortly
// before the call that this client had not seen it. To distinguish the transactions, put the client's name into the
// data of one of the nodes.
//
// A repeat must not take effect after a successful first try. So something in the transaction has to make the server
// refuse the repeat: the create of a node that stays, the delete of a node that is not created again, or a version.
// Otherwise the error is ErrBadArguments. (A delete without a version may delete a node that another client has
// created in between.) Sequential creates are ErrBadArguments, too, because their nodes could not be distinguished.
//
// The client needs permission to read the nodes. When it has read them, each Stat in the results is from after the whole
// transaction. Curator has no such operation.
func (c *Client) IdempotentTransaction(
	ctx context.Context, ops ...TransactionOp,
) ([]TransactionResult, error) {
	o, t := newTransaction(c, ops), transaction(ops)
	var expected expectedNodes
	if o.argumentError == nil {
		expected, o.argumentError = expectedAfter(ops)
	}
	o.unknownPolicy, o.ambiguousErrors = unknownCompare, []error{ErrNodeExists, ErrNoNode, ErrBadVersion, ErrNotEmpty}
	recovery := func(err error) recoveryStep[txResults] {
		if !errors.Is(err, errAmbiguous) {
			return t.createMissingRoot(err)
		}
		return func(ctx context.Context, r *operationRun[txResults]) (v txResults, again bool, _ error) {
			found, failed := c.readExpected(ctx, r.epoch, expected)
			switch {
			case failed != nil:
				return nil, false, unresolvedError(err, failed)
			case expected.areContradictedBy(found, r.precedesTries):
				return r.clearUnknownOutcome()
			}
			reason := repeatRefusal(err)
			if refused := t.refusedOperation(reason); refused != nil {
				node := expected[refused.full]
				// If an earlier try has deleted the node, the repeat is refused with ErrNoNode. Any other refusal shows that the
				// node existed at the repeat: if it does not exist now, another client has deleted it.
				if node.deleted == errors.Is(reason, ErrNoNode) && node.causesRefusal(*refused) &&
					expected.areMatchedBy(found, r.zxidBefore, r.epoch.wire.ID()) {
					return t.resultsFromNodes(found), false, nil
				}
			}
			return nil, false, err
		}
	}
	if f, ok := o.procedure.(functionProcedure[txResults]); ok { // unless the arguments are invalid
		f.recovery = recovery
		o.procedure = f
	}
	return runForeground(ctx, o)
}

// resultsFromNodes returns the results of an executed transaction whose reply was lost. nodes were read after it, by
// their full paths.
func (t transaction) resultsFromNodes(nodes map[string]foundNode) []TransactionResult {
	results := make([]TransactionResult, len(t))
	for i, op := range t {
		results[i] = TransactionResult{Op: op.name, Path: op.path}
		if op.name == "setData" || op.name == "create" && op.entry.Op != jute.OpCreate2 {
			results[i].Stat = nodes[op.full].stat
		}
	}
	return results
}

// expectedNode is the state that a transaction would leave a node in.
type expectedNode struct {
	created, deleted bool
	ephemeral        bool
	written          bool   // by a create or a setData
	data             []byte // if written
	version          int32  // -1: unknown
}

// expectedNodes has the nodes of a transaction by their full paths.
type expectedNodes map[string]expectedNode

// expectedAfter returns the states after a transaction of these operations, or the reason why the transaction cannot be
// repeated.
func expectedAfter(ops []TransactionOp) (expectedNodes, error) {
	expected, firstOps := expectedNodes{}, map[string]TransactionOp{}
	for _, op := range ops {
		if op.alternative != nil {
			return nil, badArguments("an idempotent transaction with OrSetData: a repeat would not be refused")
		}
		if _, known := firstOps[op.full]; !known {
			firstOps[op.full] = op
		}
		node, known := expected[op.full]
		if !known {
			node.version = -1
		}
		mode := Persistent
		switch req := op.entry.Request.(type) {
		case *jute.CreateRequest:
			mode = CreateMode(req.Flags)
			node = expectedNode{created: true, written: true, ephemeral: mode.isEphemeral(), data: req.Data}
		case *jute.CreateTTLRequest:
			mode = CreateMode(req.Flags)
			node = expectedNode{created: true, written: true, data: req.Data}
		case *jute.SetDataRequest:
			if node.version < 0 {
				node.version = req.Version
			}
			if node.version >= 0 {
				node.version++
			}
			node.written, node.data = true, req.Data
		case *jute.PathVersionRequest:
			if op.name == "delete" {
				node = expectedNode{deleted: true, version: -1}
			} else if node.version < 0 {
				node.version = req.Version
			}
		}
		if mode.isSequential() {
			return nil, badArguments("an idempotent transaction cannot create sequential nodes: it could " +
				"not tell them apart")
		}
		expected[op.full] = node
	}
	for path, op := range firstOps {
		// An ephemeral node may be deleted with its session before the repeat. Then the repeat is not refused.
		if node := expected[path]; node.causesRefusal(op) && !node.ephemeral {
			return expected, nil
		}
	}
	return nil, badArguments("no operation of the transaction would fail if it were executed twice: " +
		"give a version, or create a node that is not ephemeral")
}

// causesRefusal reports whether the server refuses op for a node in this state.
func (n expectedNode) causesRefusal(op TransactionOp) bool {
	version := int32(-1)
	switch req := op.entry.Request.(type) {
	case *jute.SetDataRequest:
		version = req.Version
	case *jute.PathVersionRequest:
		version = req.Version
	default: // a create
		return !n.deleted
	}
	return n.deleted || version >= 0 && n.version >= 0 && n.version != version
}

// foundNode is a node that was read after an unknown outcome.
type foundNode struct {
	exists bool
	data   []byte
	stat   Stat
}

// readExpected reads the nodes that the transaction would have changed, and returns them by their full paths.
func (c *Client) readExpected(
	ctx context.Context, e *sessionEpoch, expected expectedNodes,
) (map[string]foundNode, error) {
	var paths []string
	var calls []*wire.Call
	for path, node := range expected {
		if node.written || node.deleted {
			paths, calls = append(paths, path), append(calls, e.limitPatience(readCall(jute.OpGetData, path)))
		}
	}
	replies, err := awaitReplies(ctx, e, calls...)
	if err != nil {
		return nil, err
	}
	found := map[string]foundNode{}
	for i, r := range replies {
		var res jute.GetDataResponse
		err := readReplyError(r)
		if err == nil {
			err = decodeRecord(r.Body, res.Fields)
		}
		if ignoreNoNode(err) != nil {
			return nil, err
		}
		found[paths[i]] = foundNode{err == nil, res.Data, Stat(res.Stat)}
	}
	return found, nil
}

// areContradictedBy reports whether a node proves that no try was executed: a node that the transaction creates or
// deletes is older than the tries, or a node that it writes has not changed since. older is precedesTries.
func (expected expectedNodes) areContradictedBy(found map[string]foundNode, older func(zxid int64) bool) bool {
	for path, want := range expected {
		got := found[path]
		if got.exists && ((want.created || want.deleted) && older(got.stat.Czxid) || want.written && older(got.stat.Mzxid)) {
			return true
		}
	}
	return false
}

// areMatchedBy reports whether the nodes are as the transaction leaves them. before is the highest zxid known when the
// call began. All nodes that the transaction writes must have one and the same zxid. If it only deletes nodes, none of
// them may exist.
func (expected expectedNodes) areMatchedBy(found map[string]foundNode, before, session int64) bool {
	zxid := int64(0)
	for path, want := range expected {
		got := found[path]
		if !want.written {
			continue
		}
		owner := int64(0)
		if want.ephemeral {
			owner = session
		}
		switch {
		case !got.exists, !bytes.Equal(got.data, want.data), got.stat.Mzxid <= before:
			return false
		case want.version >= 0 && got.stat.Version != want.version:
			return false
		case want.created && (got.stat.Czxid != got.stat.Mzxid || got.stat.EphemeralOwner != owner):
			return false
		case zxid != 0 && got.stat.Mzxid != zxid:
			return false
		}
		zxid = got.stat.Mzxid
	}
	if zxid != 0 {
		return true
	}
	for path, want := range expected {
		if want.deleted && found[path].exists {
			return false
		}
	}
	return true
}
