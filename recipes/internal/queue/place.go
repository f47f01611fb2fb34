package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// place is one node in the line, in one session.
type place struct {
	*Line
	session *framework.Session
	view    *framework.Client // pinned to session
	path    string
	name    string
	czxid   int64

	creating    *framework.Pending[framework.CreateResult] // the create, while it is under way
	own         *framework.Watch                           // armed on the own node; nil if it is not
	unarmed     int                                        // how often in a row the server did not say what there is to watch
	connections uint64                                     // of the session, before the last list was asked for
	unreadable  string                                     // the predecessor that we may not watch
	crowd       *framework.Watch                           // instead: armed on the directory by the last list
}

// stay is one stay in line: from the create to the hold. When it returns an error, the node is on its way out; also when it does not return, because
// OnWait or a hook panics or ends the goroutine.
func (l *Line) stay(ctx, values context.Context, session *framework.Session, wait bool) (*Grant, error) {
	p := &place{Line: l, session: session, view: session.Client().ForRecipes()}
	granted := false
	defer func() {
		if !granted {
			p.leave(ctx)
		}
		if p.crowd != nil {
			p.crowd.Stop()
		}
	}()
	children, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	for {
		if err = p.turn(ctx, children, wait); err != nil {
			return nil, err
		}
		hold, err := p.hold(ctx, values)
		if err == nil {
			granted = true
			return &Grant{Session: session, Hold: hold, Path: p.path, Name: p.name, Czxid: p.czxid}, nil
		}
		if !errors.Is(err, framework.ErrSuspended) {
			return nil, err
		}
		// First in line, but with a policy for which a lost connection is a loss.
		if err = session.WaitQuorum(ctx); err != nil {
			return nil, err
		}
		if children, err = p.list(ctx); err != nil {
			return nil, err
		}
	}
}

// enter creates the node and lists the directory, in one flight.
func (p *place) enter(ctx context.Context) (children []string, err error) {
	data := p.data(ctx)
	create := p.view.Create().WithMode(framework.EphemeralSequential).WithProtection().CreatingParentContainersIfNeeded().InBackground()
	err = p.Client.Retry(ctx, func(ctx context.Context) error {
		p.connections = p.session.Connections()
		p.creating = create.ForPath(ctx, p.join(p.Name), data)
		listed := p.view.GetChildren().InBackground().ForPath(ctx, p.Dir)
		node, err := Result(p.creating)
		p.creating = nil
		if err != nil {
			return err
		}
		p.path, p.name, p.czxid = node.Path, zkpath.Base(node.Path), node.Stat.Czxid
		// The list may be an error, or too old: when the directory was missing, or the connection was lost in between. Then the own
		// node is not in it, and that is found out when it is looked at.
		if list, err := Result(listed); err == nil {
			children = list.Names
		}
		return nil
	})
	return children, err
}

// turn returns nil when it is the node's turn.
func (p *place) turn(ctx context.Context, children []string, wait bool) error {
	for again := false; ; again = true {
		d := p.Order.Decide(p.name, children)
		if d.Verdict != Missing {
			p.warn(p.name, d)
			p.tell(children, d)
		}
		switch d.Verdict {
		case Granted:
			return nil
		case Refused:
			return fmt.Errorf("%w (%s)", ErrSequenceExhausted, plain.Text(p.name))
		case Missing:
			if again { // this list was asked for when the create was confirmed
				return errPlaceLost
			}
		case Wait:
			if !wait {
				return taken(d.Predecessor)
			}
			if p.OnWait != nil {
				p.OnWait(Position{Node: p.name, Predecessor: d.Predecessor, Ahead: d.Ahead})
			}
			granted, err := p.await(ctx, children, d)
			if granted {
				return nil
			}
			if err != nil && ctx.Err() != nil {
				return fmt.Errorf("%w; it was waiting behind %s, with %d ahead", err, plain.Text(d.Predecessor), d.Ahead)
			}
			if err != nil {
				return err
			}
		}
		var err error
		if children, err = p.list(ctx); err != nil {
			return err
		}
	}
}

// list reads the directory, however long the connection is away: the place in line is kept as long as the session lives.
func (p *place) list(ctx context.Context) ([]string, error) {
	if p.crowd != nil {
		p.crowd.Stop()
		p.crowd = nil
	}
	var names []string
	err := Patiently(ctx, p.view, func(ctx context.Context) (err error) {
		p.connections = p.session.Connections()
		if p.unreadable != "" {
			names, p.crowd, err = p.view.GetChildren().WithWatch().ForPath(ctx, p.Dir)
		} else {
			names, err = p.view.GetChildren().ForPath(ctx, p.Dir)
		}
		return err
	})
	if errors.Is(err, framework.ErrNoNode) {
		return nil, errPlaceLost // the directory is gone, so the node is
	}
	return names, err
}

// await waits for the predecessor to go. granted says that with it the turn has come; else, without an error, the list has to be read again.
func (p *place) await(ctx context.Context, children []string, d Decision) (granted bool, err error) {
	ahead, watching, err := p.watch(ctx, d.Predecessor)
	if err != nil || !watching {
		return false, err
	}
	defer ahead.stop()
	if p.Client.Observer().Active() {
		waited := p.Client.Observer().Wait(ctx, p.seen(children, d, ahead.node))
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
			sole := d.Sole && !ahead.crowd && ev.Type == framework.EventNodeDeleted
			return sole && p.own != nil && p.connections == p.session.Connections(), nil
		case <-check.C:
			// Watches get lost for reasons that are nobody's fault here: a server that drops events for want of rights, a bug. It costs
			// one read per waiter and session timeout to be safe from them.
			there = p.view.CheckExists().InBackground().ForPath(ctx, p.join(d.Predecessor))
			checked = there.Done()
		case <-checked:
			if there, err := Result(there); err == nil && there.Stat == nil {
				p.Client.Logger().Warn("the node ahead went away without an event", "path", p.join(d.Predecessor))
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

// ended is the loss of the session, or the end of the client.
func ended(why error) error {
	if why == nil {
		return framework.ErrSessionLost
	}
	return why
}

// ownEvent handles an event of the own node: after anything but its deletion one has to look whether it is still the same.
func (p *place) ownEvent(ev framework.Event) error {
	p.own = nil
	switch ev.Type {
	case framework.EventNodeDeleted:
		return errPlaceLost
	case framework.EventEnd:
		return ended(ev.Err)
	}
	return nil
}

// obstacle is what a waiter watches.
type obstacle struct {
	events <-chan framework.Event
	crowd  bool                 // not the predecessor itself, but the directory
	node   framework.DataResult // what is known of the predecessor
	stop   func()
}

// Events is the channel of a watch; without one it is nil, and nothing ever comes.
func Events(w *framework.Watch) <-chan framework.Event {
	if w == nil {
		return nil
	}
	return w.C
}

// watch arms the watches of a waiter in one flight, the own node's first. watching is false when the list has to be read again. What the nodes contain is
// not its business: anybody may have written anything, packed or not.
func (p *place) watch(ctx context.Context, predecessor string) (o obstacle, watching bool, err error) {
	var own, ahead *framework.Pending[framework.DataResult]
	if p.own == nil {
		own = p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, p.path)
	}
	if p.unreadable != predecessor {
		p.unreadable = ""
	}
	if p.unreadable == "" {
		ahead = p.view.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, p.join(predecessor))
	}
	if own != nil {
		err = p.ownSeen(Result(own))
	}
	if ahead == nil {
		return obstacle{events: Events(p.crowd), crowd: true, stop: func() {}}, err == nil && p.crowd != nil, err
	}
	node, aheadErr := Result(ahead)
	switch {
	case err != nil:
	case aheadErr == nil:
		p.unarmed = 0
		return obstacle{events: node.Watch.C, node: node, stop: node.Watch.Stop}, true, nil
	case errors.Is(aheadErr, framework.ErrNoAuth):
		// The rights on the directory are enough to see that it has gone. The list that arms the watch there is the next one.
		p.Client.Logger().Warn("no right to read the node ahead: watching the directory instead", "path", p.join(predecessor))
		p.unreadable = predecessor
		return o, false, nil
	case errors.Is(aheadErr, framework.ErrReplyTooLarge):
		p.Client.Logger().Warn("the data of the node ahead are larger than WithMaxReply: watching the directory instead", "path", p.join(predecessor))
		p.unreadable = predecessor
		return o, false, nil
	case errors.Is(aheadErr, framework.ErrNoNode):
		return o, false, nil
	case framework.Retryable(aheadErr) && ctx.Err() == nil:
		// The list waits for the connection. But it may have been the answer of a server that is overloaded, and answers the list.
		p.unarmed++
		return o, false, Pause(ctx, p.Client, p.unarmed-1)
	default:
		err = aheadErr
	}
	if node.Watch != nil {
		node.Watch.Stop()
	}
	return o, false, err
}

// ownSeen handles the answer that arms the watch on the own node.
func (p *place) ownSeen(node framework.DataResult, err error) error {
	switch {
	case err == nil && (node.Stat.Czxid != p.czxid || node.Stat.EphemeralOwner != p.session.ID()):
		node.Watch.Stop()
		return errPlaceLost
	case err == nil:
		p.own = node.Watch
		return nil
	case errors.Is(err, framework.ErrNoNode):
		return errPlaceLost
	case errors.Is(err, framework.ErrNoAuth), errors.Is(err, framework.ErrReplyTooLarge), framework.Retryable(err):
		return nil // without the watch there is a list before the grant
	}
	return err
}

// hold makes the grant a hold.
func (p *place) hold(ctx, values context.Context) (*framework.Hold, error) {
	mark := &mark{}
	opt := framework.HoldOptions{Path: p.path, Recipe: p.Recipe, Czxid: p.czxid, Loss: p.Loss, Values: Carry(values, p.owner(), mark)}
	if p.own != nil {
		opt.OwnWatchAfter = -1 // joins ours
	}
	hold, err := p.session.Hold(ctx, opt)
	if errors.Is(err, framework.ErrNodeDeleted) {
		err = errPlaceLost
	}
	if err != nil {
		return nil, err
	}
	mark.held.Store(hold)
	if p.own != nil {
		p.own.Stop()
	}
	return hold, nil
}

// leave hands the node, if there is one, to the session layer, which deletes it for certain. The watch on it is used up by that, without a request.
func (p *place) leave(caller context.Context) {
	if p.path != "" {
		remove(p.view, p.path)
	}
	if p.creating != nil {
		p.creating.Then(func(node framework.CreateResult, err error) {
			if err == nil {
				remove(p.view, node.Path)
			}
		})
	}
}

func remove(view *framework.Client, path string) {
	view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), path)
}

// Leave is Release for who does not wait: the next one is woken by it, and nobody else needs to know.
func (g *Grant) Leave() {
	defer remove(g.Session.Client(), g.Path) // also if a hook does not return
	g.Hold.End(framework.ErrReleased)
}

// Release ends the hold and deletes the node. When ctx ends first, or the connection is lost, the session layer goes on.
func (g *Grant) Release(ctx context.Context) (err error) {
	end := func() { g.Hold.End(framework.ErrReleased) }
	defer func() { // also if a hook does not return
		err = g.Session.Client().Delete().Quietly().Guaranteed().ForPath(ctx, g.Path)
	}()
	end()
	return nil
}

// Result waits for an operation whose own context bounds it: whoever stopped waiting before it is over would leave behind what it brings.
func Result[T any](p *framework.Pending[T]) (T, error) { return p.Wait(context.Background()) }

// Jittered spreads the checks of many waiters.
func Jittered(d time.Duration) time.Duration {
	if d <= 0 {
		d = 10 * time.Second
	}
	return chance.Around(d)
}
