package promises

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// pair is a holder behind a proxy and a waiter for the same lock on a good connection.
type pair struct {
	link    *proxy.Proxy
	held    *mutex.Lock
	ended   <-chan time.Time // when the holder's context was seen to have ended
	granted <-chan grant
}

type grant struct {
	lock *mutex.Lock
	at   time.Time
	err  error
}

// newPair returns when one contender holds and the other waits.
func newPair(t *testing.T, ctx context.Context, node *zkserver.Node, path string) (*pair, error) {
	p := &pair{link: proxy.New(t, node.Addr())}
	t.Cleanup(p.link.Heal) // so that the holder's client closes in peace
	var err error
	if p.held, err = mutex.New(kit.Dial(t, p.link.Addr()), path).Acquire(ctx); err != nil {
		return nil, err
	}
	p.ended = kit.EndOf(t, p.held.Context().Done())
	queued := make(chan struct{})
	waiter := mutex.New(kit.Dial(t, node.Addr()), path, mutex.OnWait(func(mutex.Position) { close(queued) }))
	p.granted = kit.Call(t, ctx, func(ctx context.Context) (grant, error) {
		lock, err := waiter.Acquire(ctx)
		return grant{lock, time.Now(), err}, nil
	})
	select {
	case <-queued:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// P1: a holder falls into a black hole: no packet comes through any more, and neither side is notified. Its context
// ends before another contender gets the lock, every time: on a server with usual settings, and on one that expires
// sessions almost as early as it may, where only the client's margin is left.
func TestBlackHoledHolder(t *testing.T) { // alone: measuring margins needs a processor
	t.Run("as servers usually are", func(t *testing.T) {
		t.Parallel()
		blackHoles(t, 100, 2*time.Second)
	})
	t.Run("the strictest server", func(t *testing.T) {
		t.Parallel()
		blackHoles(t, 50, tick)
	})
}

// fall is one holder's fall into the hole, with all instants on one clock.
type fall struct {
	hole     time.Time
	promised time.Time // the end of the hold by Remaining
	timer    time.Time // when a plain timer, set to that instant, fired
	ended    time.Time // when the end of the context was noticed
	granted  time.Time // when the other contender had the lock
}

// stalled reports whether this machine, or this process, was stalled until the lock was granted: not even a timer fired
// in time.
func (f fall) stalled() bool { return f.granted.Sub(f.timer) < 20*time.Millisecond }

func blackHoles(t *testing.T, runs int, tick time.Duration) {
	ctx := kit.Context(t)
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, MinSessionTimeout: timeout,
		MaxSessionTimeout: timeout})
	var all sync.WaitGroup
	var mu sync.Mutex
	var falls []fall
	var stalls int
	began := time.Now()
	for run := range runs {
		all.Go(func() {
			// All phases of the holder's pings and of the server's clock.
			time.Sleep(rand.N(4 * time.Second))
			for again := 0; again < 3; again++ {
				f, ok := blackHole(t, ctx, node, fmt.Sprintf("/locks/%d-%d", run, again), run)
				if !ok {
					return
				}
				mu.Lock()
				if f.stalled() {
					stalls++
				} else {
					falls = append(falls, f)
				}
				mu.Unlock()
				if !f.stalled() {
					return
				}
			}
		})
	}
	all.Wait()
	require.Len(t, falls, runs)
	extremes := func(of func(f fall) time.Duration) (least, most time.Duration) {
		slices.SortFunc(falls, func(a, b fall) int { return cmp.Compare(of(a), of(b)) })
		return of(falls[0]), of(falls[runs-1])
	}
	promised, _ := extremes(func(f fall) time.Duration { return f.granted.Sub(f.promised) })
	_, late := extremes(func(f fall) time.Duration { return f.ended.Sub(f.timer) })
	least, most := extremes(func(f fall) time.Duration { return f.granted.Sub(f.ended) })
	kit.Figure(t, "P1, tick %v, %d runs in %v: the context ended %v to %v before the grant (promised: at "+
		"least %v), at most %v after a mere timer; %d more while the machine stood still",
		tick, runs, time.Since(began).Round(time.Millisecond), least, most, promised, late, stalls)
	assert.Positive(t, least)
}

func blackHole(
	t *testing.T, ctx context.Context, node *zkserver.Node, path string, run int,
) (f fall, ok bool) {
	p, err := newPair(t, ctx, node, path)
	if !assert.NoError(t, err) {
		return f, false
	}
	time.Sleep(rand.N(timeout / 6))
	way := proxy.Both
	if run%2 == 1 {
		way = proxy.ToServer // the replies to requests that the server has received still come
	}
	p.link.Hang(way)
	f.hole = time.Now()
	time.Sleep(timeout / 4)
	left := p.held.Remaining()
	f.promised = time.Now().Add(left)
	timer := make(chan time.Time, 1)
	time.AfterFunc(left, func() { timer <- time.Now() })
	next := <-p.granted
	if !assert.NoError(t, next.err) {
		return f, false
	}
	f.granted = next.at
	assert.Error(t, p.held.Context().Err())
	assert.False(t, p.held.Valid())
	assert.Zero(t, p.held.Remaining())
	assert.True(t, f.promised.Before(f.granted), "the promise itself: %v after the grant",
		f.promised.Sub(f.granted))
	assert.ErrorIs(t, context.Cause(p.held.Context()), framework.ErrSessionLost)
	assert.Greater(t, next.lock.FencingToken(), p.held.FencingToken())
	assert.Less(t, f.granted.Sub(f.hole), 2*timeout+kit.Slack(), "the lock is not lost to everybody")
	f.ended, f.timer = <-p.ended, <-timer
	return f, true
}

// Only the replies do not come through. The client continues to send requests, which keep the session alive at the
// server; but no longer than needed: the last request is before the end of the context, and the server counts from it.
func TestMuteServer(t *testing.T) {
	t.Parallel()
	ctx := kit.Context(t)
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, MaxSessionTimeout: timeout})
	var all sync.WaitGroup
	for run := range 10 {
		all.Go(func() {
			p, err := newPair(t, ctx, node, fmt.Sprintf("/mute/%d", run))
			if !assert.NoError(t, err) {
				return
			}
			time.Sleep(rand.N(timeout / 6))
			p.link.Hang(proxy.ToClient)
			hole := time.Now()
			next := <-p.granted
			if !assert.NoError(t, next.err) {
				return
			}
			assert.Error(t, p.held.Context().Err())
			ended := <-p.ended
			t.Logf("context ended %v after the hole, granted %v later", ended.Sub(hole), next.at.Sub(ended))
			assert.LessOrEqual(t, ended.Sub(hole), timeout+kit.Slack(), "a knock does not prolong it")
			assert.Less(t, next.at.Sub(ended), timeout+tick+kit.Slack(),
				"the end of the session must not keep it alive")
		})
	}
	all.Wait()
}
