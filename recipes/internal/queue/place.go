package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-curator/curator/framework"
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

	wasFirst WasFirst // how to do without a list; nil if there is no way
	waited   bool     // for a node ahead

	listing Shared[listing] // what it is listed by, if no other waiter is listed at the same time

	creating    *framework.Pending[framework.CreateResult] // the create, while it is under way
	own         *framework.Watch                           // armed on the own node; nil if it is not
	ownChanged  bool                                       // somebody has written to the own node
	armFailures int                                        // in a row, to arm the watches
	unreadable  string                                     // the node ahead that cannot be watched
	connections uint64                                     // of the session, before the last list was asked for
	behind      int64                                      // the session of the node ahead; 0 if it is not known
	dirWatch    *framework.Watch                           // instead: armed on the directory by the last list
}

// queue joins the line in one session, and stays there until its turn. placed says that it has had a node there. On an
// error, also when it does not return because OnWait or a hook panics or ends the goroutine, the node is on its way out.
func (l *Line) queue(
	ctx context.Context, session *framework.Session, wait bool, wasFirst WasFirst,
) (grant *Grant, placed bool, err error) {
	p := &place{Line: l, session: session, view: session.Client().ForRecipes(), wasFirst: wasFirst}
	granted := false
	defer func() {
		if !granted && !errors.Is(err, errNodeLost) { // else another client's node may have its name
			p.abandon()
		}
		p.dirWatch.Stop()
	}()
	children, err := p.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	for {
		if err = p.turn(ctx, children, wait); err != nil {
			return nil, true, err
		}
		grant = &Grant{
			Session: session, Path: p.path, Name: p.name, Czxid: p.czxid, Waited: p.waited,
			line: l, marks: p.marks(),
		}
		var ownWatchAfter time.Duration
		if p.own != nil {
			ownWatchAfter = -1 // joins ours
		}
		err = Holding(ctx, session, 1, wait, func(ctx context.Context) error { return l.Hold(ctx, ownWatchAfter, grant) })
		switch {
		case err == nil:
			granted = true
			p.own.Stop()
			return grant, true, nil
		case ctx.Err() == nil && errors.Is(err, framework.ErrNodeDeleted): // else it may be why ctx has ended
			return nil, true, errNodeLost
		case !errors.Is(err, framework.ErrSuspended):
			return nil, true, err
		}
		// First in line, but with a policy for which a lost connection is a loss.
		if err = session.WaitQuorum(ctx); err != nil {
			return nil, true, err
		}
		if children, err = p.list(ctx); err != nil {
			return nil, true, err
		}
	}
}

// enter creates the node and lists the directory, in one flight if no other goroutine of the client comes
// into this line at the same time. Else they share a list, see [entrance].
func (p *place) enter(ctx context.Context) (children []string, err error) {
	data := p.Data
	if data == nil {
		data = p.Client.Hooks().NodeData(ctx, framework.Acquisition{Recipe: p.Recipe, Path: p.Dir})
	}
	create := p.view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		CreatingParentContainersIfNeeded().InBackground()
	by := entrances.Enter(comers{p.owner(), p.session.ID()})
	defer by.Leave()
	err = p.Client.Retry(ctx, func(ctx context.Context) error {
		p.creating = create.ForPath(ctx, zkpath.Join(p.Dir, p.Name), data)
		list := by.Join(&p.listing, 1)
		defer p.done(ctx, by, list)
		p.ask(ctx, list)
		var seen []string
		var unlisted error
		wait := func() { seen, unlisted = names(ctx, list) }
		// The own list is answered after the create. To wait for that first is to wait once, unless the create was not
		// even sent.
		own := list == &p.listing && !p.creating.Ended()
		if own {
			wait()
		}
		node, err := Result(p.creating)
		p.creating = nil
		if err != nil {
			return err
		}
		if !own {
			wait()
		}
		p.path, p.name, p.czxid = node.Path, zkpath.Base(node.Path), node.Stat.Czxid
		// The list may be an error, or too old: when the directory was missing, or the connection was lost in
		// between. Then the own node is not in it, and turn lists again.
		if unlisted == nil {
			children, p.connections = seen, list.Question.connections
		}
		return nil
	})
	return children, err
}

// ask asks for a list if it is the caller's own, and not one that somebody else asks for.
func (p *place) ask(ctx context.Context, list *Shared[listing]) {
	if list == &p.listing {
		p.askNow(ctx, list)
	}
}

// done is called once for each list that was joined, when it is there or not needed any more.
func (p *place) done(ctx context.Context, by *Entrance[comers, listing], list *Shared[listing]) {
	next := by.Done(list)
	p.listing = Shared[listing]{} // a waiter keeps no names
	if next != nil {
		defer next.WasAsked() // also if a hook does not return
		p.askNow(ctx, next)
	}
}

func (p *place) askNow(ctx context.Context, list *Shared[listing]) {
	l := &list.Question
	l.connections = p.session.Connections()
	l.listed = p.view.GetChildren().InBackground().ForPath(list.Context(ctx), p.Dir)
}

func (p *place) turn(ctx context.Context, children []string, wait bool) error {
	for again := false; ; again = true {
		d := p.Order.Decide(p.name, children)
		if d.Verdict != Missing {
			p.warn(p.name, d)
			if hooks := p.Client.Hooks(); hooks.Queue != nil {
				hooks.Queue(p.seen(children, d))
			}
		}
		switch d.Verdict {
		case Granted:
			return nil
		case Refused:
			return fmt.Errorf("%w (%s)", ErrSequenceExhausted, plain.Text(p.name))
		case Missing:
			if d.lost(again) {
				return errNodeLost
			}
		case Wait:
			if !wait {
				return notAcquired(d.Predecessor)
			}
			if p.OnWait != nil {
				p.OnWait(Position{Node: p.name, Predecessor: d.Predecessor, Ahead: d.Ahead})
			}
			p.waited = true
			granted, err := p.await(ctx, children, d)
			if granted {
				return nil
			}
			if err != nil && ctx.Err() != nil {
				return fmt.Errorf("%w; waiting behind node %s%s, with %d ahead in the queue",
					err, plain.Text(d.Predecessor), p.whose(), d.Ahead)
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

// whose is for the error of a waiter that has given up. A caller that acquires again with another context than
// the lock's waits for itself.
func (p *place) whose() string {
	if p.behind != p.session.ID() {
		return ""
	}
	if p.NoReentry {
		return ", which is of this client"
	}
	return ", which is of this client (to re-enter a lock, acquire with its Context)"
}

// list reads the directory, however long the connection is away: the place in line lasts as long as the
// session. Of many waiters of one client that need a list at the same time, most share it, as newcomers do: all
// readers whose turn has come, or all waiters after a lost connection.
func (p *place) list(ctx context.Context) (children []string, err error) {
	p.dirWatch.Stop()
	p.dirWatch = nil
	if p.unreadable != "" {
		err = ThroughOutages(ctx, p.view, func(ctx context.Context) (err error) {
			p.connections = p.session.Connections()
			children, p.dirWatch, err = p.view.GetChildren().WithWatch().ForPath(ctx, p.Dir)
			return err
		})
	} else {
		by := entrances.Enter(comers{p.owner(), p.session.ID()})
		defer by.Leave()
		err = ThroughOutages(ctx, p.view, func(ctx context.Context) (err error) {
			list := by.Join(&p.listing, MostAtOnce)
			defer p.done(ctx, by, list)
			p.ask(ctx, list)
			if children, err = names(ctx, list); err == nil {
				p.connections = list.Question.connections
			}
			return err
		})
	}
	if errors.Is(err, framework.ErrNoNode) {
		return nil, errNodeLost // the directory is gone, so the node is
	}
	return children, err
}

// abandon has the client delete the node, if there is one or may be one. That uses up the watch on it,
// without a request. After an event by which the node may have been replaced it is read first.
func (p *place) abandon() {
	switch {
	case p.path == "":
	case p.ownChanged:
		p.view.CheckExists().InBackground().ForPath(context.Background(), p.path).
			Then(func(node framework.ExistsResult, err error) {
				if err != nil || node.Stat != nil && p.isOwn(*node.Stat) {
					Remove(p.view, p.path)
				}
			})
	default:
		Remove(p.view, p.path)
	}
	if p.creating != nil {
		p.creating.Then(func(node framework.CreateResult, err error) {
			if err == nil {
				Remove(p.view, node.Path)
			}
		})
	}
}

// seen is what a list has shown, for the hooks.
func (p *place) seen(children []string, d Decision) framework.Queue {
	q := framework.Queue{Recipe: p.Recipe, Path: p.Dir, Node: p.name, Ahead: d.Ahead, Predecessor: d.Predecessor}
	for _, name := range children {
		if p.Order.Contender(name) {
			q.Length++
		} else {
			q.Foreign++
		}
	}
	if number, ok := p.Order.Number(p.name); ok {
		q.SequenceLeft = max(Limit-number-1, 0)
	}
	return q
}

// Result waits for an operation that was queued with a context of its own, which bounds it. A caller that
// stopped waiting earlier would leave behind what the operation brings.
func Result[T any](p *framework.Pending[T]) (T, error) { return p.Wait(context.Background()) }

// Unpacked returns the data of a node that were read Undecompressed with an error or none, as the client would read
// them; as they are if the client compresses and they are not compressed.
func Unpacked(client *framework.Client, path string, data []byte, err error) ([]byte, error) {
	if err != nil {
		return data, err
	}
	plain, err := client.UnpackedUpTo(path, data, math.MaxInt)
	if errors.Is(err, framework.ErrDecompressedTooLarge) {
		return nil, err
	}
	return plain, nil
}

// Remove has the client delete a node, and does not wait: the client goes on until it is done or the session
// has ended.
func Remove(view *framework.Client, path string) *framework.Pending[struct{}] {
	return view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), path)
}
