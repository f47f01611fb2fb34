package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// ahead is what a waiter watches: the node ahead, or the directory if that node cannot be watched.
type ahead struct {
	events <-chan framework.Event
	dir    bool                 // it is the directory
	gone   bool                 // there is no such node
	node   framework.DataResult // what is known of the node ahead
	stop   func()
}

// await waits for the node ahead to go. granted says that with it the turn has come; else, without an error,
// the list has to be read again.
//
// The own node is watched only when the owner is the next one in line, because the list has shown that, or
// another waiter of the client has seen it: with more ahead there is another list before the turn.
func (p *place) await(ctx context.Context, children []string, d Decision) (granted bool, err error) {
	var told func(error)
	if hooks := p.Client.Hooks(); hooks.Queue != nil {
		seen := p.seen(children, d) // the names are not kept while it waits
		defer func() {
			if told != nil {
				told(err)
			}
		}()
		begin := func(node framework.DataResult) {
			seen.PredecessorSession, seen.PredecessorToken = node.Stat.EphemeralOwner, node.Stat.Czxid
			seen.PredecessorData, _ = p.view.Unpacked(zkpath.Join(p.Dir, d.Predecessor), node.Data)
			told = hooks.Wait(ctx, seen)
		}
		return p.awaitAhead(ctx, d, begin)
	}
	return p.awaitAhead(ctx, d, func(framework.DataResult) {})
}

// awaitAhead is await; it calls begin when the node ahead is watched.
func (p *place) awaitAhead(
	ctx context.Context, d Decision, begin func(ahead framework.DataResult),
) (granted bool, err error) {
	p.behind = 0
	next, target := d.Sole && p.wasFirst == nil, p.target(d)
	var becomesNext <-chan struct{}
	if d.First != "" && !next && target == d.Predecessor {
		becomesNext = p.peers.learn(d.Predecessor)
		defer p.peers.forget(d.Predecessor)
	}
	ahead, watching, err := p.watch(ctx, target, next)
	if err != nil || !watching {
		return ahead.gone && p.follows(ctx, d, target), err
	}
	defer ahead.stop()
	nearest := ahead.node
	if target != d.Predecessor {
		nearest = framework.DataResult{} // nothing is known of it
	}
	p.behind = nearest.Stat.EphemeralOwner
	begin(nearest)
	defer p.forgetArming()
	check := time.NewTimer(Jittered(p.session.Timeout()))
	defer check.Stop()
	var looking *look
	for {
		select {
		case <-becomesNext:
			next, becomesNext = true, nil
			p.armOwn(ctx)
		case <-done(p.arming):
			if again, err := p.armed(); again || err != nil {
				return false, err
			}
		case ev := <-Events(p.own):
			return false, p.ownEvent(ev)
		case ev := <-ahead.events:
			if ev.Type == framework.EventEnd {
				return false, ended(ev.Err)
			}
			gone := !ahead.dir && ev.Type == framework.EventNodeDeleted
			if p.wasFirst != nil {
				return gone && p.follows(ctx, d, target), nil
			}
			return p.isTurn(next && gone)
		case <-check.C:
			looking = p.look(ctx, target)
		case <-looking.done():
			if again, err := looking.seen(); again || err != nil {
				return false, err
			}
			looking = nil
			check.Reset(Jittered(p.session.Timeout()))
		case <-p.session.Done():
			return false, ended(context.Cause(p.session.Context()))
		case <-ctx.Done():
			return false, p.Client.Left(ctx, nil)
		}
	}
}

// target is the node ahead that a waiter watches: the nearest one, or, if holds are long, the nearest but
// one. When that goes, the list shows while the nearest one holds that the waiter is the next. If the nearest
// one is of the same client, that will tell.
//
// Whichever it is, it has to go before the owner's turn, so a waiter that watches it misses nothing.
func (p *place) target(d Decision) string {
	far := p.FarSighted && time.Duration(p.memory.heldFor.Load()) >= longHold
	if far && d.Second != "" && !p.peers.has(d.Predecessor) {
		return d.Second
	}
	return d.Predecessor
}

// follows says, when the node ahead is gone, whether WasFirst shows that it is the owner's turn. If a name in the
// directory is unusual, the order of the others is not known well enough.
func (p *place) follows(ctx context.Context, d Decision, gone string) bool {
	return p.wasFirst != nil && d.First != "" && p.wasFirst(ctx, p.session, gone)
}

// isTurn says, after an event of what is watched ahead, whether the turn has come; sole says that the last
// node ahead is gone. Then the own node must have been there since the list: there is a watch on it in the
// same connection, or the read that arms one, and which the server has answered after the event, has found
// it.
func (p *place) isTurn(sole bool) (bool, error) {
	if sole && p.arming != nil {
		if again, err := p.armed(); again || err != nil {
			return false, err
		}
	}
	select {
	case own := <-Events(p.own): // it came before, or not much later
		return false, p.ownEvent(own)
	default:
	}
	return sole && p.own != nil && p.connections == p.session.Connections(), nil
}

// look is how a waiter finds out what no event has told it. Events can get lost, since servers drop those of
// nodes that the client may not read. It costs one read per waiter and session timeout to be safe from that,
// and one more of the own node while that is not watched.
type look struct {
	p          *place
	ahead      string
	own, there *framework.Pending[framework.ExistsResult]
}

func (p *place) look(ctx context.Context, predecessor string) *look {
	l := &look{p: p, ahead: zkpath.Join(p.Dir, predecessor)}
	exists := p.view.CheckExists().InBackground()
	if p.own == nil {
		l.own = exists.ForPath(ctx, p.path)
	}
	l.there = exists.ForPath(ctx, l.ahead)
	return l
}

func (l *look) done() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.there.Done()
}

// seen says whether the list has to be read again, because the node ahead has gone. The error is errNodeLost
// if the own node has.
func (l *look) seen() (again bool, err error) {
	if l.own != nil {
		own, err := Result(l.own)
		if err == nil && (own.Stat == nil || !l.p.isOwn(*own.Stat)) {
			return false, errNodeLost
		}
	}
	there, err := Result(l.there)
	if err != nil || there.Stat != nil {
		return false, nil
	}
	l.p.Client.Logger().Warn("the node ahead in the queue is gone, but no watch event came; "+
		"going on without the event", "path", l.ahead)
	return true, nil
}

func ended(why error) error {
	if why == nil {
		return framework.ErrSessionLost
	}
	return why
}

// ownEvent handles an event of the own node. After anything but its deletion the list tells whether it is
// still there.
func (p *place) ownEvent(ev framework.Event) error {
	p.own = nil
	switch ev.Type {
	case framework.EventNodeDeleted:
		return errNodeLost
	case framework.EventEnd:
		return ended(ev.Err)
	}
	return nil
}

// watch arms the watches of a waiter in one flight: of the next one in line also that on its own node, first.
// watching is false when the list has to be read again. The nodes' contents do not matter: anybody may have
// written anything, packed or not.
func (p *place) watch(
	ctx context.Context, predecessor string, isNext bool,
) (a ahead, watching bool, err error) {
	if isNext && p.own == nil {
		p.armOwn(ctx)
	}
	var next *framework.Pending[framework.DataResult]
	if p.unreadable != predecessor {
		p.unreadable = ""
		read := p.view.GetData().Undecompressed().WithWatch().InBackground()
		next = read.ForPath(ctx, zkpath.Join(p.Dir, predecessor))
	}
	again := false
	if p.arming != nil {
		again, err = p.armed()
	}
	if next == nil {
		watching = err == nil && p.dirWatch != nil
		return ahead{events: Events(p.dirWatch), dir: true, stop: func() {}}, watching, err
	}
	node, nextErr := Result(next)
	switch {
	case err != nil:
	case nextErr == nil && !again:
		p.armFailures = 0
		p.peers.watches(predecessor, node.Stat.Czxid)
		stop := func() {
			p.peers.unwatches(predecessor)
			node.Watch.Stop()
		}
		return ahead{events: node.Watch.C, node: node, stop: stop}, true, nil
	case errors.Is(nextErr, framework.ErrNoAuth), errors.Is(nextErr, framework.ErrReplyTooLarge):
		// The list that follows arms a watch on the directory, from which one sees that the node has gone.
		p.Client.Logger().Warn("cannot read the node ahead in the queue; watching the parent's children "+
			"instead",
			"path", zkpath.Join(p.Dir, predecessor), "err", nextErr)
		p.unreadable = predecessor
		return a, false, nil
	case errors.Is(nextErr, framework.ErrNoNode):
		return ahead{gone: true}, false, nil
	case (again || framework.Retryable(nextErr)) && ctx.Err() == nil:
		// The list waits for the connection. But this may have been an overloaded server, which answers the
		// list.
		if node.Watch != nil {
			node.Watch.Stop()
		}
		p.armFailures++
		return a, false, Backoff(ctx, p.Client, p.armFailures-1)
	default:
		err = nextErr
	}
	if node.Watch != nil {
		node.Watch.Stop()
	}
	return a, false, err
}

// armOwn begins to arm a watch on the own node. If the waiter after it has one on the server, it joins that:
// the two are in one session.
func (p *place) armOwn(ctx context.Context) {
	if p.own == nil && p.peers.hasWatched(p.name, p.czxid) {
		p.own = p.session.JoinWatch(p.path)
	}
	if p.own == nil && p.arming == nil {
		p.arming = p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, p.path)
	}
}

// forgetArming gives up what armOwn has begun and nobody has waited for.
func (p *place) forgetArming() {
	if p.arming != nil {
		p.arming.Then(func(node framework.DataResult, err error) {
			if err == nil {
				node.Watch.Stop()
			}
		})
		p.arming = nil
	}
}

// armed waits for the answer that arms the watch on the own node. It says whether to try again, after a list:
// the request was lost, for example with its connection.
func (p *place) armed() (again bool, err error) {
	node, err := Result(p.arming)
	p.arming = nil
	switch {
	case err == nil && !p.isOwn(node.Stat):
		node.Watch.Stop()
		return false, errNodeLost
	case err == nil:
		p.own = node.Watch
		return false, nil
	case errors.Is(err, framework.ErrNoNode):
		return false, errNodeLost
	case errors.Is(err, framework.ErrNoAuth), errors.Is(err, framework.ErrReplyTooLarge):
		return false, nil // without the watch there is a list before the grant
	case framework.Retryable(err):
		return true, nil
	}
	return false, err
}

func (p *place) isOwn(node framework.Stat) bool {
	return node.Czxid == p.czxid && node.EphemeralOwner == p.session.ID()
}

func done[T any](p *framework.Pending[T]) <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.Done()
}
