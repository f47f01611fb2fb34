package framework

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// IdempotentTransaction is Transaction, repeated as the retry policy says after an unknown outcome, too. It forgives what a try of this same call may have
// done: when a try's reply was lost and the repeat is refused, the nodes are read, and if they are as that try would have left them, all of one transaction
// that is younger than the call, then that is the result. Else the error is the one of an unknown outcome, as with Transaction; and what is refused before
// anything was lost is refused, whatever the nodes contain. (Somebody else may do the very same while the reply is lost, or so
// shortly before the call that this client had not heard of it. Where that must be told apart, put the client's name into the data of one of the nodes.)
//
// A repeat must not be able to take effect beside the first try. So something in the transaction has to refuse it: the create of a node that stays, the
// delete of one that is not made anew, or a version. (A delete without a version may meet a node that somebody else has made anew in between.)
// ErrBadArguments if there is none, and for sequential creates, which nothing could tell apart afterwards. It needs the right to read the nodes. The Stat of a
// result that was found again is that of the node as the whole transaction has left it.
//
// Curator has no such thing.
func (c *Client) IdempotentTransaction(ctx context.Context, ops ...TransactionOp) ([]TransactionResult, error) {
	o, t := newTransaction(ops), transaction(ops)
	var left marks
	if o.fault == nil {
		left, o.fault = marksOf(ops)
	}
	o.doubt, o.ambiguous = doubtCompares, []error{ErrNodeExists, ErrNoNode, ErrBadVersion, ErrNotEmpty}
	o.after = func(err error) step[[]TransactionResult] {
		if !errors.Is(err, errAmbiguous) {
			return t.makeRoot(err)
		}
		return func(ctx context.Context, r *run[[]TransactionResult]) (v []TransactionResult, again bool, _ error) {
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
	return foreground(ctx, c, o)
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

// marks are those of a transaction's nodes, by their full paths.
type marks map[string]mark

// marksOf returns how operations leave their nodes, or why they cannot be repeated.
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
		// An ephemeral node may go with its session before the repeat, which then has nothing to be refused for.
		if m := left[path]; m.refuses(op) && !m.ephemeral {
			return left, nil
		}
	}
	return nil, badArguments("nothing in the transaction would refuse a repeat: give a version, or make a node that stays")
}

// refuses says whether an operation is refused for certain by a node that was left like this.
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

// seen is a node that was looked at.
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
			paths, calls = append(paths, path), append(calls, c.expiring(dataCall(path)))
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

// by says whether the nodes that were found are as a transaction has left them that was begun when the highest zxid known was before. Where it has written
// something, that tells: one transaction has one zxid. Where it has only deleted, it can be no more than that nothing is there.
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
