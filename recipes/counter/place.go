package counter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// place is a place in the line of the processes that write a number: an ephemeral sequential child of its node. It grants
// nothing: a process that cannot have one, or that waits for too long, writes without.
type place struct {
	session *framework.Session
	path    string
}

// placeName is the name of the places, before the number.
const placeName = "turn-"

var placeOrder = line.Order{Names: []string{placeName}}

func (p *place) isValid() bool { return p.session.Context().Err() == nil }

// awaitPlace creates a place and waits until it is the first in line. If that cannot be found out, or takes so long that
// the process ahead seems to hang, the writer tries nevertheless.
func (t *turns) awaitPlace(ctx context.Context) error {
	session, err := t.client.SessionSoon(ctx)
	if err != nil {
		return err
	}
	t.epoch = session.Epoch()
	if t.isPlaceRefused() {
		pause := t.pauseWithoutPlace()
		t.beginTurn()
		return line.Sleep(ctx, t.client, pause)
	}
	t.beginTurn()
	view := session.Client()
	creating := view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		InBackground().ForPath(ctx, zkpath.Join(t.path, placeName), []byte{})
	listing := view.GetChildren().InBackground().ForPath(ctx, t.path)
	created, err := line.AwaitResult(creating)
	list, listErr := line.AwaitResult(listing)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			line.QueueDelete(view, created.Path)
		}
		return t.client.WaitError(ctx, nil)
	case framework.Retryable(err):
		return mark.NotExecuted(err) // the retry policy was applied
	case err != nil:
		if line.IsRefused(err) && !errors.Is(err, framework.ErrNoNode) { // ErrNoNode: the number was deleted
			t.refusedIn.Store(session.Epoch())
		}
		return nil
	}
	t.place, t.lossesInRow = &place{session, created.Path}, 0
	if listErr == nil {
		t.listed = list.Stat
		err = t.awaitFirst(ctx, list.Names)
	}
	t.beginTurn()
	if err != nil {
		t.deletePlace()
	}
	return err
}

// awaitFirst waits until the place is the first in line, given the list of children.
func (t *turns) awaitFirst(ctx context.Context, children []string) error {
	at := positionInLine(zkpath.Base(t.place.path), children, t.hung)
	t.others, t.hung = at.others, at.hung
	if at.predecessor == "" {
		return nil
	}
	t.overtaken = true
	view := t.place.session.Client()
	stat, watch, err := view.CheckExists().WithWatch().ForPath(ctx, zkpath.Join(t.path, at.predecessor))
	defer watch.Stop()
	switch {
	case ctx.Err() != nil:
		return t.client.WaitError(ctx, nil)
	case err != nil, stat == nil:
		return nil
	}
	longest := func() time.Duration { return longestWait(at.ahead, t.writeTime) }
	_, err = line.AwaitEvent(ctx, t.client, watch, nil, longest, func() (framework.Event, bool) {
		t.hung = append(t.hung, at.predecessor)
		return framework.Event{}, true
	})
	if err == nil && chance.N(time.Duration(roundLength/min(t.length(), roundLength))) == 0 { // about once in a round
		err = line.Sleep(ctx, t.client, roundPause*t.unit())
	}
	return err
}

// linePosition is the position of a place in line.
type linePosition struct {
	predecessor string   // the place to wait for; "" for none
	ahead       int      // the number of places ahead
	others      int      // the number of all other places but those of hung processes
	hung        []string // places of hung processes that are still there
}

// positionInLine returns the position of a place, given the list of children and the places of processes that hang. Without
// further sequence numbers each place is the first.
func positionInLine(own string, children []string, hung []string) (at linePosition) {
	var all, live []string
	for _, name := range children {
		if !placeOrder.IsContender(name) {
			continue
		}
		all = append(all, name)
		if slices.Contains(hung, name) {
			at.hung = append(at.hung, name)
		} else {
			live = append(live, name)
		}
	}
	at.predecessor, at.others = placeOrder.Decide(own, live).Predecessor, max(len(live)-1, 0)
	at.ahead = placeOrder.Decide(own, all).Ahead
	return at
}

// longestWait returns the time after which a process with so many places ahead regards its predecessor as hung. Those
// ahead come to this conclusion first.
func longestWait(ahead int, writeTime time.Duration) time.Duration {
	return time.Duration(ahead+1) * max(turnTime, 4*leastTurn*writeTime)
}

// deletePlace deletes the place in the background. If the server refuses that, no place is created in this session again.
func (t *turns) deletePlace() {
	if t.place != nil && t.place.isValid() {
		epoch := t.place.session.Epoch()
		line.QueueDelete(t.place.session.Client().ForRecipes(), t.place.path).IfFailed(func(err error) {
			if line.IsRefused(err) {
				t.refusedIn.Store(epoch)
			}
		})
		t.listed.Cversion++
		t.listed.NumChildren--
	}
	t.place = nil
}

// isPlaceRefused reports whether the process can have no place in the session in which it has last wanted one.
func (t *turns) isPlaceRefused() bool { return t.epoch != 0 && t.refusedIn.Load() == t.epoch }

// pauseWithoutPlace returns a pause for a process that can have no place: after a turn in which the others could not write,
// or after lost races.
func (t *turns) pauseWithoutPlace() time.Duration {
	if t.ended {
		return t.unit()*pauseBetweenTurns + chance.N(t.unit()*pauseBetweenTurns)
	}
	return chance.N(t.unit() << min(t.lossesInRow, 4))
}
