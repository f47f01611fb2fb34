package counter

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
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

// refusedPlaceTime is the time in which no place is created, after the server has refused one.
const refusedPlaceTime = 10 * time.Second

// awaitPlace creates a place and waits until it is the first in line. If that cannot be found out, or takes so long that
// the process ahead seems to hang, the writer tries nevertheless.
func (t *turns) awaitPlace(ctx context.Context) error {
	if time.Since(t.placeRefusedTime) < refusedPlaceTime {
		t.beginTurn(t.current, 0)
		return line.Sleep(ctx, t.client, t.randomPause())
	}
	session, err := t.client.SessionSoon(ctx)
	if err != nil {
		return err
	}
	view := session.Client()
	creating := view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		InBackground().ForPath(ctx, zkpath.Join(t.path, placeName), []byte{})
	listing := view.GetChildren().InBackground().ForPath(ctx, t.path)
	created, err := line.AwaitResult(creating)
	list, listErr := line.AwaitResult(listing)
	t.beginTurn(list.Stat, 1)
	if err != nil {
		if line.IsRefused(err) && !errors.Is(err, framework.ErrNoNode) {
			t.placeRefusedTime = time.Now()
		}
		return t.endedError(ctx)
	}
	t.place = &place{session, created.Path}
	if listErr == nil {
		err = t.awaitFirst(ctx, list.Names)
	}
	if err != nil {
		t.deletePlace()
	}
	return err
}

// awaitFirst waits until the place is the first in line, given the list of children.
func (t *turns) awaitFirst(ctx context.Context, children []string) error {
	predecessor, ahead, others := linePosition(zkpath.Base(t.place.path), children, t.skippedPlace)
	t.others = others
	if predecessor == "" {
		return nil
	}
	view := t.place.session.Client()
	stat, watch, err := view.CheckExists().WithWatch().ForPath(ctx, zkpath.Join(t.path, predecessor))
	defer watch.Stop()
	if err != nil || stat == nil {
		return t.endedError(ctx)
	}
	longest := func() time.Duration { return longestWait(ahead, t.writeTime) }
	_, err = line.AwaitEvent(ctx, t.client, watch, nil, longest, func() (framework.Event, bool) {
		t.skippedPlace = predecessor
		return framework.Event{}, true
	})
	return err
}

// linePosition returns the predecessor of a place, "" if it is the first, the number of places ahead, and that of all others.
// The skipped place does not count.
func linePosition(own string, children []string, skipped string) (predecessor string, ahead, others int) {
	var places []string
	for _, name := range children {
		if placeOrder.IsContender(name) && name != skipped {
			places = append(places, name)
		}
	}
	d := placeOrder.Decide(own, places)
	return d.Predecessor, d.Ahead, max(len(places)-1, 0)
}

// longestWait returns the time after which a process whose place is behind so many others takes the one directly ahead for
// hanging, so that those ahead come to this conclusion first.
func longestWait(ahead int, writeTime time.Duration) time.Duration {
	return time.Duration(ahead+1) * max(100*time.Millisecond, 4*leastTurn*writeTime)
}

// deletePlace deletes the place in the background.
func (t *turns) deletePlace() {
	if t.place != nil && t.isPlaceValid() {
		line.QueueDelete(t.place.session.Client(), t.place.path)
	}
	t.place = nil
}

// endedError returns an error if ctx has ended.
func (t *turns) endedError(ctx context.Context) error {
	if ctx.Err() != nil {
		return t.client.WaitError(ctx, nil)
	}
	return nil
}
