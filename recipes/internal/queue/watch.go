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
	node   framework.DataResult // what is known of the node ahead
	stop   func()
}

// await waits for the node ahead to go. granted says that with it the turn has come; else, without an error,
// the list has to be read again.
func (p *place) await(ctx context.Context, children []string, d Decision) (granted bool, err error) {
	ahead, watching, err := p.watch(ctx, d.Predecessor)
	if err != nil || !watching {
		return false, err
	}
	defer ahead.stop()
	if hooks := p.Client.Hooks(); hooks.Queue != nil {
		waited := hooks.Wait(ctx, p.seen(children, d, ahead.node))
		defer func() { waited(err) }()
	}
	ownEvents := Events(p.own)
	check := time.NewTimer(Jittered(p.session.Timeout()))
	defer check.Stop()
	var checked <-chan struct{}
	var there *framework.Pending[framework.ExistsResult]
	for {
		select {
		case ev := <-ownEvents:
			return false, p.ownEvent(ev)
		case ev := <-ahead.events:
			if ev.Type == framework.EventEnd {
				return false, ended(ev.Err)
			}
			select {
			case own := <-ownEvents: // it came before, or not much later
				return false, p.ownEvent(own)
			default:
			}
			sole := d.Sole && !ahead.dir && ev.Type == framework.EventNodeDeleted
			return sole && p.own != nil && p.connections == p.session.Connections(), nil
		case <-check.C:
			// Events can get lost, since servers drop those of nodes that the client may not read. It costs one read
			// per waiter and session timeout to be safe from that.
			there = p.view.CheckExists().InBackground().ForPath(ctx, zkpath.Join(p.Dir, d.Predecessor))
			checked = there.Done()
		case <-checked:
			if there, err := Result(there); err == nil && there.Stat == nil {
				p.Client.Logger().Warn("the node ahead in the queue is gone, but no watch event came; "+
					"going on without the event", "path", zkpath.Join(p.Dir, d.Predecessor))
				return false, nil
			}
			checked = nil
			check.Reset(Jittered(p.session.Timeout()))
		case <-p.session.Done():
			return false, ended(context.Cause(p.session.Context()))
		case <-ctx.Done():
			return false, p.Client.Left(ctx, nil)
		}
	}
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

// watch arms the watches of a waiter in one flight, the own node's first. watching is false when the list has
// to be read again. The nodes' contents do not matter: anybody may have written anything, packed or not.
func (p *place) watch(ctx context.Context, predecessor string) (a ahead, watching bool, err error) {
	var own, next *framework.Pending[framework.DataResult]
	if p.own == nil {
		own = p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, p.path)
	}
	if p.unreadable != predecessor {
		p.unreadable = ""
		next = p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, zkpath.Join(p.Dir, predecessor))
	}
	if own != nil {
		err = p.ownSeen(Result(own))
	}
	if next == nil {
		return ahead{events: Events(p.dirWatch), dir: true, stop: func() {}}, err == nil && p.dirWatch != nil, err
	}
	node, nextErr := Result(next)
	switch {
	case err != nil:
	case nextErr == nil:
		p.armFailures = 0
		return ahead{events: node.Watch.C, node: node, stop: node.Watch.Stop}, true, nil
	case errors.Is(nextErr, framework.ErrNoAuth), errors.Is(nextErr, framework.ErrReplyTooLarge):
		// The list that follows arms a watch on the directory, from which one sees that the node has gone.
		p.Client.Logger().Warn("cannot read the node ahead in the queue; watching the parent's children "+
			"instead",
			"path", zkpath.Join(p.Dir, predecessor), "err", nextErr)
		p.unreadable = predecessor
		return a, false, nil
	case errors.Is(nextErr, framework.ErrNoNode):
		return a, false, nil
	case framework.Retryable(nextErr) && ctx.Err() == nil:
		// The list waits for the connection. But this may have been an overloaded server, which answers the list.
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

// ownSeen handles the answer that arms the watch on the own node.
func (p *place) ownSeen(node framework.DataResult, err error) error {
	switch {
	case err == nil && (node.Stat.Czxid != p.czxid || node.Stat.EphemeralOwner != p.session.ID()):
		node.Watch.Stop()
		return errNodeLost
	case err == nil:
		p.own = node.Watch
		return nil
	case errors.Is(err, framework.ErrNoNode):
		return errNodeLost
	case errors.Is(err, framework.ErrNoAuth), errors.Is(err, framework.ErrReplyTooLarge),
		framework.Retryable(err):
		return nil // without the watch there is a list before the grant
	}
	return err
}
