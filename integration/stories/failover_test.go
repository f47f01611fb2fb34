package stories

import (
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
	"github.com/go-curator/curator/integration/wirecount"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
)

// After a leader resigns the next leader follows within three round trips: the servers count the requests, one after
// the other, from the Resign to the other's term.
func TestResignIsQuick(t *testing.T) {
	t.Parallel()
	servers := threeServers(t)
	for _, rule := range []framework.Rule{framework.RuleBound, framework.RuleHeartbeat} {
		t.Run(fmt.Sprintf("%v rule", rule), func(t *testing.T) {
			ctx := kit.Context(t)
			counters := []*wirecount.Counter{wirecount.Start(t, servers.Addr(0)), wirecount.Start(t, servers.Addr(1))}
			var latches []*leader.Latch
			for i, counter := range counters {
				client, _ := kit.Connected(t, counter.Addr(), append(rules(), framework.WithRule(rule))...)
				latch, err := leader.NewLatch(client, fmt.Sprintf("/resign-%v", rule), leader.WithID(fmt.Sprint(i)),
					leader.WithLossPolicy(framework.SessionOnly))
				require.NoError(t, err)
				t.Cleanup(func() { latch.Close() })
				latches = append(latches, latch)
				kit.Soon(t, "it stands in line",
					func() bool { return latch.Health().Role == []leader.Role{leader.Leading, leader.Following}[i] })
			}
			var most int
			var times []time.Duration
			for round := range 10 {
				from, to := latches[round%2], latches[(round+1)%2]
				kit.Soon(t, "both are in place",
					func() bool { return from.HasLeadership() && to.Health().Role == leader.Following })
				time.Sleep(100 * time.Millisecond) // watches are armed
				term, err := from.Await(ctx)
				require.NoError(t, err)
				mark := counters[(round+1)%2].Mark()
				began := time.Now()
				resigned := make(chan error, 1)
				go func() { resigned <- term.Resign(ctx) }()
				next, err := to.Await(ctx)
				times = append(times, time.Since(began))
				asked := counters[(round+1)%2].Since(mark).Without(wirecount.Ping)
				require.NoError(t, err)
				require.NoError(t, <-resigned)
				assert.Greater(t, next.FencingToken(), term.FencingToken())
				// One more is for the resignation itself, the delete of a node. A heartbeat that happens to be due does
				// not count.
				most = max(most, len(asked)+1)
				assert.LessOrEqual(t, len(asked)+1, 3, "the next leader asked\n%v", asked)
			}
			slices.Sort(times)
			kit.Figure(t, "resign to next term, %v rule: at most %d round trips, %v (median of %d)", rule, most,
				times[len(times)/2].Round(10*time.Microsecond), len(times))
		})
	}
}

// The process that holds a lock is killed. The servers notice when the session times out; a follower's report may be
// half a tick late, and the leader rounds up to its next tick.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	const holders, timeout = 5, 4 * time.Second
	for _, test := range []struct {
		options zkserver.Options
		tick    time.Duration
		limit   time.Duration
	}{
		{zkserver.Options{TickTime: tick, SyncLimit: syncLimit}, tick, timeout},
		{zkserver.AsUsual(), 2 * time.Second, timeout + 3*time.Second},
	} {
		t.Run(fmt.Sprint(test.tick), func(t *testing.T) {
			servers := zkserver.StartEnsemble(t, 3, test.options)
			contender, _ := kit.Connected(t, servers.ConnectString(), framework.WithSessionTimeout(10*time.Second),
				framework.WithRule(framework.RuleHeartbeat))
			var all sync.WaitGroup
			took := make([]time.Duration, holders)
			for i := range holders {
				all.Go(func() {
					for again := 0; ; again++ {
						var whole bool
						if took[i], whole = holderKilled(t, servers, contender, fmt.Sprintf("/killed/%d-%d", i, again),
							timeout); whole || t.Failed() {
							return
						}
						assert.Less(t, again, 5, "holds end before there is a reason")
					}
				})
			}
			all.Wait()
			slices.Sort(took)
			kit.Figure(t, "holder killed (SIGKILL), session timeout %v, tick %v: the next one held after %v to %v",
				timeout, test.tick, took[0].Round(time.Millisecond), took[holders-1].Round(time.Millisecond))
			assert.LessOrEqual(t, took[holders-1], test.limit+kit.Slack())
		})
	}
}

// holderKilled returns how long the next contender had to wait, and whether the hold was valid until the kill: on a
// busy machine commits may take longer than a short session timeout allows for.
func holderKilled(
	t *testing.T, servers *zkserver.Ensemble, contender *framework.Client, path string, timeout time.Duration,
) (took time.Duration, whole bool) {
	ctx := kit.Context(t)
	held, err := kit.StartHolder(t, servers.ConnectString(), path, timeout)
	if !assert.NoError(t, err) {
		return 0, false
	}
	queued := make(chan struct{})
	var once sync.Once // it may have to join the line again
	next := mutex.New(contender, path, mutex.OnWait(func(mutex.Position) { once.Do(func() { close(queued) }) }))
	var waiter sync.WaitGroup
	var lock *mutex.Lock
	var granted time.Time
	waiter.Go(func() {
		lock, err = next.Acquire(ctx)
		granted = time.Now()
	})
	select {
	case <-queued:
	case <-ctx.Done():
	}
	time.Sleep(rand.N(2 * time.Second))
	killed := time.Now()
	held.Kill()
	waiter.Wait()
	if !assert.NoError(t, err) {
		return 0, false
	}
	assert.Greater(t, lock.FencingToken(), held.Token)
	assert.NoError(t, lock.Release(ctx))
	whole = true
	for len(held.Lines) > 0 {
		line := <-held.Lines
		whole = whole && line[0] != "ended"
	}
	return granted.Sub(killed), whole
}
