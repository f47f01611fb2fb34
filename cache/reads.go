package cache

import (
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
)

// flags say what is going on with a node.
type flags uint16

const (
	wanted     flags = 1 << iota // its data is to be read: it stands in the queue
	lookOnly                     // … but for nothing more than to see whether it has changed
	flying                       // a read of its data is under way
	again                        // … and may be older than what has been heard since
	listWanted                   // its children are to be listed: it stands in the queue
	listFlying                   // a listing is under way
	listAgain                    // … and may be older than what has been heard since
	listed                       // its children have been listed; what happened to them since has been heard of
	unproven                     // no, it may not: there was a gap since it was read last
	doubted                      // it may be another node of that name by now: there was a gap, or the server said so, since it was read last
	proving                      // … and a read that will tell is under way
	counting                     // the load waits for it
	gone                         // it has left the tree
)

type kind uint8

const (
	readData kind = iota
	readList
	readStat // exists
)

// op is a read: in the queue or under way.
type op struct {
	n    *node
	kind kind
}

const (
	// window bounds what is under way: weights of requests.
	window, manyWeight = 256, 32
	// mostReads and replyTarget bound a MultiRead, by its reads and by what is expected of the answer in bytes; requestLimit by the request itself.
	mostReads, replyTarget, requestLimit = 256, 256 << 10, 256 << 10
	// enough nodes tell how large they are.
	enough = 8
	// bigData is from where a node is compared by its Stat, in a request of its own, rather than by reading it.
	bigData = 4 << 10
	// What answers contain besides data, roughly.
	statBytes, nameBytes  = 96, 24
	pauseFirst, pauseMost = 100 * time.Millisecond, 5 * time.Second
	// So many connections lost in a row over a MultiRead, or over setting the watch, are no accident. The MultiRead, which goes out together with the
	// watch, is given up first.
	mostReadLosses, mostWatchLosses = 5, 10
)

// reads is what is to be read, and how.
type reads struct {
	queue  []op
	head   int
	weight int // of what is under way

	single  bool // the server has no MultiRead
	guessed bool // single is no more than a guess, for this session
	losses  int  // connections lost in a row over a MultiRead
	most    int  // reads in a request, at present
	average int  // bytes of a node's data, of late
	gauged  bool // average is more than a guess
	halted  bool // the session is over: its end is about to be heard of

	pausedUntil time.Time
	pause       time.Duration
}

// init begins with a guess that is not small: the first answers shall not be huge.
func (r *reads) init() { r.most, r.average, r.pause = mostReads, 16<<10, pauseFirst }

// rest makes a pause, longer with each until there is an answer. What fails while there is one was under way before it.
func (r *reads) rest() {
	if r.pausedUntil.IsZero() {
		r.pausedUntil = time.Now().Add(r.pause)
		r.pause = min(2*r.pause, pauseMost)
	}
}

// window is how much may be under way: little until it is known how large nodes are.
func (r *reads) window() int {
	if r.gauged {
		return window
	}
	return manyWeight
}

// reset forgets what is under way: the answers will be ignored.
func (r *reads) reset() {
	r.queue, r.head, r.weight, r.halted, r.pausedUntil, r.losses = nil, 0, 0, false, time.Time{}, 0
	if r.guessed {
		r.single, r.guessed = false, false
	}
}

// waiting is how many reads stand in the queue.
func (r *reads) waiting() int { return len(r.queue) - r.head }

// push takes the room of what has been sent before it takes more: with changes that never pause the queue may never be empty.
func (r *reads) push(o op) {
	if 2*r.head > len(r.queue) {
		n := copy(r.queue, r.queue[r.head:])
		clear(r.queue[n:])
		r.queue, r.head = r.queue[:n], 0
	}
	r.queue = append(r.queue, o)
}

func (r *reads) pop() (op, bool) {
	if r.head == len(r.queue) {
		r.queue, r.head = nil, 0
		return op{}, false
	}
	o := r.queue[r.head]
	r.queue[r.head] = op{}
	r.head++
	return o, true
}

// want has a node's data read, from now on.
func (e *engine) want(n *node) {
	e.catchUp(n)
	switch {
	case n.flags&gone != 0:
	case n.flags&flying != 0:
		n.flags |= again
	case n.flags&wanted != 0:
		n.flags &^= lookOnly
	default:
		n.flags |= wanted
		e.reads.push(op{n, readData})
	}
}

// wantOther is want for what may be another node of that name.
func (e *engine) wantOther(n *node) {
	n.flags |= doubted
	e.want(n)
}

// catchUp makes those who wait for the cache to be in sync wait for what one-shot watches tell after a reconnect.
func (e *engine) catchUp(n *node) {
	if e.catching && n.flags&gone == 0 {
		e.count(n)
	}
}

// look has a node looked at, to see whether it has changed.
func (e *engine) look(n *node) {
	if n.flags&(gone|wanted|flying) == 0 {
		n.flags |= lookOnly
	}
	e.want(n)
}

// wantList has a node's children listed, from now on.
func (e *engine) wantList(n *node) {
	e.catchUp(n)
	switch {
	case n.flags&gone != 0:
	case n.flags&listFlying != 0:
		n.flags |= listAgain
	case n.flags&listWanted == 0:
		n.flags |= listWanted
		e.reads.push(op{n, readList})
	}
}

// take takes the next read off the queue, with its flags turned to flying.
func (e *engine) take() (op, bool) {
	for {
		o, ok := e.reads.pop()
		switch n := o.n; {
		case !ok:
			return o, false
		case n.flags&gone != 0:
		case o.kind == readList && n.flags&listWanted != 0:
			n.flags = n.flags&^listWanted | listFlying
			return o, true
		case o.kind == readData && n.flags&wanted != 0:
			if n.flags&lookOnly != 0 && n.live && n.length >= bigData && !e.oneShot {
				o.kind = readStat
			}
			if n.flags&doubted != 0 {
				n.flags = n.flags&^doubted | proving
			}
			n.flags = n.flags&^(wanted|lookOnly) | flying
			return o, true
		}
	}
}

// back puts a read that was taken, or has failed, into the queue again.
func (e *engine) back(o op) {
	n := o.n
	if n.flags&gone != 0 {
		return
	}
	if o.kind == readList {
		n.flags &^= listFlying | listAgain
		e.wantList(n)
		return
	}
	if n.flags&proving != 0 {
		n.flags |= doubted
	}
	n.flags &^= flying | again | proving
	if o.kind == readStat {
		e.look(n)
	} else {
		e.want(n)
	}
}

// pump sends what the window allows.
func (e *engine) pump() {
	r := &e.reads
	if e.session == nil || e.probing || r.halted || !r.pausedUntil.IsZero() {
		return
	}
	if e.sync.is() && !e.oneShot && r.weight > 0 && r.waiting() < r.most {
		return // what comes meanwhile goes together: see draft.go
	}
	for r.weight < r.window() {
		if !e.sendNext() {
			return
		}
	}
}

// sendNext sends a request. It returns false when there is nothing to be read.
func (e *engine) sendNext() bool {
	var ops, singles []op
	var many []framework.Read
	request, reply := 0, 0
	for len(ops) < e.reads.most && request < requestLimit && reply < replyTarget && e.reads.weight+len(singles) < e.reads.window() {
		o, ok := e.take()
		if !ok {
			break
		}
		path := e.store.path(o.n)
		if e.oneShot || e.reads.single || o.kind == readStat {
			if len(ops) == 0 {
				e.sendOne(o, path)
				return true
			}
			singles = append(singles, o) // what stands above it in the tree goes first
			continue
		}
		ops = append(ops, o)
		request += len(path) + 24
		if o.kind == readList {
			many = append(many, framework.ReadChildren(path))
			reply += int(o.n.stat().NumChildren) * nameBytes
		} else {
			many = append(many, framework.ReadData(path))
			reply += e.expect(o.n) + statBytes
		}
	}
	if len(ops) == 0 {
		return false
	}
	life := e.life
	e.reads.weight += manyWeight
	e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, many...).Then(func(r framework.MultiReadResult, err error) {
		e.postIn(life, func() { e.gotMany(ops, r, err) })
	})
	for _, o := range singles {
		e.sendOne(o, e.store.path(o.n))
	}
	return true
}

// expect is how many bytes a node's data will be, perhaps.
func (e *engine) expect(n *node) int {
	if n.live {
		return int(n.length)
	}
	return e.reads.average
}

// sendOne sends a read in a request of its own, with a watch where one is needed.
func (e *engine) sendOne(o op, path string) {
	life, n := e.life, o.n
	e.reads.weight++
	switch o.kind {
	case readData:
		b := e.view.GetData().Undecompressed()
		s := e.aim(n, e.shots[n].data != nil)
		if s != nil {
			b = b.Watching(e.firing(s, e.dataShot))
		}
		b.InBackground().ForPath(e.ctx, path).Then(func(r framework.DataResult, err error) {
			e.answer(life, s, r.Watch, func() { e.gotOne(o, r.Data, &r.Stat, nil, s, r.Watch, err) })
		})
	case readList:
		b := e.view.GetChildren()
		s := e.aim(n, e.shots[n].child != nil)
		if s != nil {
			b = b.Watching(e.firing(s, e.childShot))
		}
		b.InBackground().ForPath(e.ctx, path).Then(func(r framework.ChildrenResult, err error) {
			e.answer(life, s, r.Watch, func() { e.gotOne(o, nil, &r.Stat, r.Names, s, r.Watch, err) })
		})
	case readStat:
		b := e.view.CheckExists()
		s := e.aim(n, e.shots[n].data != nil)
		if s != nil {
			b = b.Watching(e.firing(s, e.dataShot))
		}
		b.InBackground().ForPath(e.ctx, path).Then(func(r framework.ExistsResult, err error) {
			if err == nil && r.Stat == nil {
				err = framework.ErrNoNode
			}
			e.answer(life, s, r.Watch, func() { e.gotOne(o, nil, r.Stat, nil, s, r.Watch, err) })
		})
	}
}

// answer posts what is to be done with an answer. A watch that nobody is interested in any more is stopped.
func (e *engine) answer(life int, s *shot, w *framework.Watch, do func()) {
	posted := e.post(func() {
		if life == e.life {
			do()
		} else if w != nil {
			w.Stop()
		}
	})
	if !posted && w != nil {
		w.Stop()
	}
}

// probe asks for the server's zxid. The answer to an earlier question, which may come late, says nothing about the last gap.
func (e *engine) probe() {
	e.probes++
	e.probeAt = time.Time{}
	life, probe := e.life, e.probes
	e.view.MultiRead().Undecompressed().InBackground().ForReads(e.ctx, framework.ReadData(e.cfg.root)).Then(func(r framework.MultiReadResult, err error) {
		e.postIn(life, func() { e.probed(probe, r.Zxid, err) })
	})
}

// undelivered puts reads back that came to nothing, for a reason that is not theirs.
func (e *engine) undelivered(ops []op, many bool, err error) {
	r := &e.reads
	switch {
	case errors.Is(err, framework.ErrSessionLost), errors.Is(err, framework.ErrClosed), e.ctx.Err() != nil:
		r.halted = true
	case errors.Is(err, framework.ErrAuthFailed): // which is ErrNotConnected, too, but is said at once
		r.rest()
	case errors.Is(err, framework.ErrNotConnected):
		// They wait for the next connection in the client's queue.
	case errors.Is(err, framework.ErrConnectionLoss):
		// So do they. If it was the size of the answer that broke it, the next will be smaller; there are servers that do so at any MultiRead.
		if many {
			r.most = max(1, r.most/2)
			if r.losses++; r.losses == mostReadLosses {
				r.single, r.guessed = true, true
			}
		}
	case framework.Retryable(err):
		r.rest()
	case errors.Is(err, framework.ErrUnimplemented) && !r.single:
		e.log.Info("cache: the server has no multiRead: reading one by one")
		r.single = true
	case len(ops) > 1: // too large, perhaps
		r.most = max(1, len(ops)/2)
	default:
		for _, o := range ops {
			e.refused(o, err)
		}
		return
	}
	for _, o := range ops {
		e.back(o)
	}
}

// delivered learns from an answer, with the data of so many nodes.
func (e *engine) delivered(nodes, bytes int) {
	r := &e.reads
	r.pause = pauseFirst
	if nodes > 0 {
		r.most = min(r.most+r.most/2+1, mostReads)
		r.average = (r.average + bytes/nodes) / 2
		r.losses = 0
		r.gauged = r.gauged || nodes >= enough
	}
}
