package cache

import (
	"github.com/go-curator/curator/framework"
)

const (
	// maxNodesPerRead and replyTarget bound a MultiRead, by its reads and by the bytes that are expected of the
	// answer; requestLimit bounds it by its own bytes.
	maxNodesPerRead, replyTarget, requestLimit = 256, 256 << 10, 256 << 10
	// manyWeight is how much of the window a MultiRead takes.
	manyWeight = 32
	// From bigData on a node is compared by its Stat, in a request of its own, rather than by reading it.
	bigData = 4 << 10
	// What answers contain besides data, roughly.
	statBytes, nameBytes = 96, 24
	// This many connections lost in a row over a MultiRead are no accident.
	mostReadLosses = 5
)

// sizes is how much is read by one request.
type sizes struct {
	single       bool // nodes are read one by one: the server has no MultiRead
	guessed      bool // single is a guess, for this session
	losses       int  // connections lost in a row over a MultiRead
	nodesPerRead int  // reads in a request, at present
	average      int  // bytes of a node's data, of late
	gauged       bool // average is more than a guess
}

// pump: when the cache is in sync, reads that come up while a request is under way go together in the next.
func (w *persistentWay) pump() {
	e, r := w.e, &w.e.reads
	if w.gapOpen || e.sync.is() && r.weight > 0 && r.queue.len() < r.sizes.nodesPerRead {
		return
	}
	for r.weight < r.window() && w.send() {
	}
}

// send sends a request. It returns false when there is nothing to be read.
func (w *persistentWay) send() bool {
	e, r := w.e, &w.e.reads
	var ops, singles []op
	var many []framework.Read
	request, reply := 0, 0
	for len(ops) < r.sizes.nodesPerRead && request < requestLimit && reply < replyTarget &&
		r.weight+len(singles) < r.window() {
		o, ok := e.take(bigData)
		if !ok {
			break
		}
		if r.sizes.single || o.kind == readStat {
			if singles = append(singles, o); len(ops) == 0 {
				break
			}
			continue // what is above it in the tree goes first
		}
		ops = append(ops, o)
		path := e.store.path(o.n)
		request += len(path) + 24
		if o.kind == readList {
			many = append(many, framework.ReadChildren(path))
			reply += int(o.n.stat().NumChildren) * nameBytes
		} else {
			many = append(many, framework.ReadData(path))
			reply += r.expect(o.n) + statBytes
		}
	}
	if len(ops) > 0 {
		r.weight += manyWeight
		e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, many...).
			Then(func(result framework.MultiReadResult, err error) {
				e.postFor(w, func() { w.gotMany(ops, result, err) })
			})
	}
	for _, o := range singles {
		e.send(o, nil)
	}
	return len(ops)+len(singles) > 0
}

// gotMany takes the answer to a MultiRead.
func (w *persistentWay) gotMany(ops []op, result framework.MultiReadResult, err error) {
	e := w.e
	e.reads.weight -= manyWeight
	if err != nil {
		e.undelivered(ops, true, err)
		return
	}
	bytes, nodes := 0, 0
	for i, o := range ops {
		if o.kind == readData && result.Results[i].Err == nil {
			bytes, nodes = bytes+len(result.Results[i].Data), nodes+1
		}
	}
	e.reads.delivered(nodes, bytes)
	if !w.gapOpen {
		w.zxid = max(w.zxid, result.Zxid)
	}
	anew := 0
	for i, o := range ops {
		if anew += e.got(o, &result.Results[i]); e.way != w {
			return // everything is read anew
		}
	}
	e.answered(anew)
}
