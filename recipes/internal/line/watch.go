package line

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
	mark   *framework.Watch     // of its mark; nil if there is none
}

func (a ahead) stop() {
	if !a.dir {
		a.node.Watch.Stop()
	}
	a.mark.Stop()
}

// await waits for the node ahead to go. granted says that with it the turn has come; else, without an error,
// the list has to be read again.
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
	ahead, watching, err := p.watch(ctx, d)
	defer func() { ahead.stop() }()
	switch {
	case err != nil:
		return false, err
	case ahead.gone && p.wasFirst != nil:
		return p.follows(ctx, d), nil
	case ahead.gone:
		return p.isTurn(evidence{marked: left(ahead.mark)})
	case !watching:
		return false, nil
	}
	p.behind = ahead.node.Stat.EphemeralOwner
	p.warnSessionless(d.Predecessor, ahead)
	begin(ahead.node)
	check := time.NewTimer(Jittered(p.session.Timeout()))
	defer check.Stop()
	var looking *look
	for {
		select {
		case ev := <-Events(p.own):
			if err := p.ownEvent(ev); err != nil {
				return false, err
			}
			if looking == nil { // somebody has written to it, or replaced it
				looking = p.look(ctx, d.Predecessor)
			}
		case ev := <-Events(ahead.mark):
			ahead.mark = nil
			if ev.Type == framework.EventNodeCreated {
				ahead.node.Watch = nil // its event is on its way: to stop it now might take a request
				return p.isTurn(evidence{marked: true})
			}
		case ev := <-ahead.events:
			if ev.Type == framework.EventEnd {
				return false, ended(ev.Err)
			}
			gone := !ahead.dir && ev.Type == framework.EventNodeDeleted
			if p.wasFirst != nil {
				return gone && p.follows(ctx, d), nil
			}
			return p.isTurn(evidence{gone: gone, sole: d.Sole, marked: gone && left(ahead.mark)})
		case <-check.C:
			looking = p.look(ctx, d.Predecessor)
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

// warnSessionless logs, once for a node, that the node ahead goes with no session.
func (p *place) warnSessionless(name string, a ahead) {
	if node := a.node.Stat; !a.dir && node.EphemeralOwner == 0 && p.warnedSessionless.Swap(node.Czxid) != node.Czxid {
		p.Client.Logger().Warn("the node ahead in the queue is one of no session: waiting until it is deleted",
			"path", zkpath.Join(p.Dir, name))
	}
}

// follows says, when the node ahead is gone, whether WasFirst shows that it is the owner's turn. If a name in the
// directory is unusual, the order of the others is not known well enough.
func (p *place) follows(ctx context.Context, d Decision) bool {
	return d.Usual && p.wasFirst(ctx, p.session, d.Predecessor)
}

// isTurn reports whether the turn has come, after an event of what is watched ahead.
func (p *place) isTurn(e evidence) (bool, error) {
	select {
	case own := <-Events(p.own): // it came before, or not much later
		return false, p.ownEvent(own)
	default:
	}
	e.there, e.same = p.own != nil, p.connections == p.session.Connections()
	return e.turn(), nil
}

// look is how a waiter finds out what no event has told it. Events can get lost, since servers drop those of
// nodes that the client may not read. It costs two reads per waiter and session timeout to be safe from that.
type look struct {
	p          *place
	ahead      string
	own, there *framework.Pending[framework.ExistsResult]
}

func (p *place) look(ctx context.Context, predecessor string) *look {
	l := &look{p: p, ahead: zkpath.Join(p.Dir, predecessor)}
	exists := p.view.CheckExists().InBackground()
	l.own, l.there = exists.ForPath(ctx, p.path), exists.ForPath(ctx, l.ahead)
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
	own, unseen := Result(l.own)
	lost := unseen == nil && (own.Stat == nil || !l.p.isOwn(*own.Stat))
	there, unseen := Result(l.there)
	if again, err = afterLook(lost, unseen == nil && there.Stat == nil); again {
		l.p.Client.Logger().Warn("the node ahead in the queue is gone, but no watch event came; "+
			"going on without the event", "path", l.ahead)
	}
	return again, err
}

// afterLook returns what follows from a look: lost says that the own node is gone or another session's, gone that the
// node ahead is not there.
func afterLook(lost, gone bool) (again bool, err error) {
	if lost {
		return false, errNodeLost
	}
	return gone, nil
}

func ended(why error) error {
	if why == nil {
		return framework.ErrSessionLost
	}
	return why
}

// ownEvent handles an event of the own node. After anything but its deletion there is a list before the grant.
func (p *place) ownEvent(ev framework.Event) error {
	p.own, p.ownChanged = nil, true
	switch ev.Type {
	case framework.EventNodeDeleted:
		return errNodeLost
	case framework.EventEnd:
		return ended(ev.Err)
	}
	return nil
}

// watch arms the watches of a waiter in one flight, those that make a list unnecessary first. watching is false when
// the list has to be read again. The node's content does not matter: anybody may have written anything, packed or not.
func (p *place) watch(ctx context.Context, d Decision) (a ahead, watching bool, err error) {
	if p.unreadable == d.Predecessor {
		a.events, a.dir = Events(p.dirWatch), true
		return a, p.dirWatch != nil, nil
	}
	p.unreadable = ""
	arming := p.arm(ctx, d)
	taken := false
	defer func() {
		if !taken { // a hook did not return
			arming.forget()
		}
	}()
	full := zkpath.Join(p.Dir, d.Predecessor)
	read := p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, full)
	taken = true
	mark, again, err := p.armed(ctx, arming)
	node, failed := Result(read)
	a.mark, a.node, a.events = mark, node, Events(node.Watch)
	switch {
	case err != nil:
	case failed == nil && !again:
		p.armFailures = 0
		return a, true, nil
	case errors.Is(failed, framework.ErrNoAuth), errors.Is(failed, framework.ErrReplyTooLarge):
		// The list that follows arms a watch on the directory, from which one sees that the node has gone.
		p.Client.Logger().Warn("cannot read the node ahead in the queue; watching the parent's children instead",
			"path", full, "err", failed)
		p.unreadable = d.Predecessor
	case errors.Is(failed, framework.ErrNoNode):
		a.gone = true
	case (again || framework.Retryable(failed)) && ctx.Err() == nil:
		// The list waits for the connection. But this may have been an overloaded server, which answers the list.
		p.armFailures++
		err = Backoff(ctx, p.Client, p.armFailures-1)
	default:
		err = failed
	}
	return a, false, err
}

func (p *place) isOwn(node framework.Stat) bool {
	return node.Czxid == p.czxid && node.EphemeralOwner == p.session.ID()
}
