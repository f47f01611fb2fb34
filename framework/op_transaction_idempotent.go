package framework

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// IdempotentTransaction is Transaction, but repeated after an unknown outcome, too. It forgives what an
// earlier try of this same call may have done. When a try's reply was lost and the repeat is refused, the
// nodes are read. If they are as that try would have left them, all changed by one transaction since the call
// began, that is the result. Otherwise the error is the one of an unknown outcome, as with Transaction. A
// refusal before any reply was lost is a refusal, whatever the nodes contain. (Somebody else may do the very
// same while the reply is lost, or so shortly before the call that this client had not heard of it. To tell
// that apart, put the client's name into the data of one of the nodes.)
//
// A repeat must not take effect after a first try that did. So something in the transaction has to refuse it:
// the create of a node that stays, the delete of one that is not made anew, or a version. Otherwise the error
// is ErrBadArguments, as for sequential creates, whose nodes could not be told apart. (A delete without a
// version may meet a node that somebody else has made anew in between.) It needs the right to read the nodes.
// The Stat of a result that was found by reading is that of the node after the whole transaction.
// Curator has no such operation.
func (c *Client) IdempotentTransaction(
	ctx context.Context, ops ...TransactionOp,
) ([]TransactionResult, error) {
	o, t := newTransaction(c, ops), transaction(ops)
	var left marks
	if o.fault == nil {
		left, o.fault = marksOf(ops)
	}
	o.doubt, o.ambiguous = doubtCompares, []error{ErrNodeExists, ErrNoNode, ErrBadVersion, ErrNotEmpty}
	o.after = func(err error) step[txResults] {
		if !errors.Is(err, errAmbiguous) {
			return t.makeRoot(err)
		}
		return func(ctx context.Context, r *run[txResults]) (v txResults, again bool, _ error) {
			if by := t.refusedBy(refusalOf(err)); by == nil || !left[by.full].refuses(*by) {
				return nil, false, err
			}
			found, failed := c.look(ctx, r.e, left)
			switch {
			case failed != nil:
				return nil, false, notSeen(err, failed)
			case !left.by(found, r.before, r.e.wire.ID()):
				return nil, false, err
			}
			return t.found(found), false, nil
		}
	}
	return foreground(ctx, o)
}

// found returns the results of a transaction that was executed, from the nodes that were read after it.
func (t transaction) found(nodes map[string]seen) []TransactionResult {
	results := make([]TransactionResult, len(t))
	for i, op := range t {
		results[i] = TransactionResult{Op: op.name, Path: op.path}
		if op.name == "setData" || op.name == "create" && op.op.Op != jute.OpCreate2 {
			results[i].Stat = nodes[op.full].stat
		}
	}
	return results
}

// mark is how a transaction leaves a node.
type mark struct {
	made, gone bool
	ephemeral  bool
	set        bool // made counts, too
	data       []byte
	version    int32 // -1: not known
}

// marks are how a transaction leaves its nodes, by their full paths.
type marks map[string]mark

// marksOf returns the marks of operations, or why they cannot be repeated.
func marksOf(ops []TransactionOp) (marks, error) {
	left, first := marks{}, map[string]TransactionOp{}
	for _, op := range ops {
		if _, known := first[op.full]; !known {
			first[op.full] = op
		}
		m, known := left[op.full]
		if !known {
			m.version = -1
		}
		mode := Persistent
		switch req := op.op.Request.(type) {
		case *jute.CreateRequest:
			mode = CreateMode(req.Flags)
			m = mark{made: true, set: true, ephemeral: mode.ephemeral(), data: req.Data}
		case *jute.CreateTTLRequest:
			mode = CreateMode(req.Flags)
			m = mark{made: true, set: true, data: req.Data}
		case *jute.SetDataRequest:
			if m.version < 0 {
				m.version = req.Version
			}
			if m.version >= 0 {
				m.version++
			}
			m.set, m.data = true, req.Data
		case *jute.PathVersionRequest:
			if op.name == "delete" {
				m = mark{gone: true, version: -1}
			} else if m.version < 0 {
				m.version = req.Version
			}
		}
		if mode.sequential() {
			return nil, badArguments("an idempotent transaction cannot tell sequential nodes apart")
		}
		left[op.full] = m
	}
	for path, op := range first {
		// An ephemeral node may go with its session before the repeat, which is then not refused.
		if m := left[path]; m.refuses(op) && !m.ephemeral {
			return left, nil
		}
	}
	return nil, badArguments("nothing in the transaction would refuse a repeat: " +
		"give a version, or make a node that stays")
}

// refuses says whether the node, left like this, makes the server refuse the operation.
func (m mark) refuses(op TransactionOp) bool {
	version := int32(-1)
	switch req := op.op.Request.(type) {
	case *jute.SetDataRequest:
		version = req.Version
	case *jute.PathVersionRequest:
		version = req.Version
	default: // a create
		return !m.gone
	}
	return m.gone || version >= 0 && m.version >= 0 && m.version != version
}

type seen struct {
	there bool
	data  []byte
	stat  Stat
}

// look reads the nodes on which a transaction leaves a mark.
func (c *Client) look(ctx context.Context, e *epoch, left marks) (map[string]seen, error) {
	var paths []string
	var calls []*wire.Call
	for path, m := range left {
		if m.set || m.gone {
			paths, calls = append(paths, path), append(calls, c.expiring(readCall(jute.OpGetData, path)))
		}
	}
	replies, err := awaitAll(ctx, e, calls...)
	if err != nil {
		return nil, err
	}
	found := map[string]seen{}
	for i, r := range replies {
		var res jute.GetDataResponse
		err := readError(r)
		if err == nil {
			err = decode(r.Body, &res)
		}
		if unlessNoNode(err) != nil {
			return nil, err
		}
		found[paths[i]] = seen{err == nil, res.Data, Stat(res.Stat)}
	}
	return found, nil
}

// by says whether the nodes found are as the transaction has left them, if it began when the highest zxid
// known was before. What it has written has one zxid, that of the transaction. If it has only deleted, the
// nodes must be gone.
func (left marks) by(found map[string]seen, before, session int64) bool {
	zxid := int64(0)
	for path, m := range left {
		n := found[path]
		if !m.set {
			continue
		}
		owner := int64(0)
		if m.ephemeral {
			owner = session
		}
		switch {
		case !n.there, !bytes.Equal(n.data, m.data), n.stat.Mzxid <= before:
			return false
		case m.version >= 0 && n.stat.Version != m.version:
			return false
		case m.made && (n.stat.Czxid != n.stat.Mzxid || n.stat.EphemeralOwner != owner):
			return false
		case zxid != 0 && n.stat.Mzxid != zxid:
			return false
		}
		zxid = n.stat.Mzxid
	}
	if zxid != 0 {
		return true
	}
	for path, m := range left {
		if m.gone && found[path].there {
			return false
		}
	}
	return true
}
