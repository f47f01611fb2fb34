package promises

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// P1 where a hold begins after a rest: for some seconds clients hold nothing, then they acquire locks through a
// follower, some of them after a wait, and that follower is cut off from its leader within a second. The leader does
// not know yet that the sessions have sent requests. The ensemble is cut once, or CURATOR_TEST_REPEAT times.
func TestHoldsThatBeginAfterARest(t *testing.T) {
	t.Parallel()
	servers := zkserver.StartEnsemble(t, 3, zkserver.AsUsual())
	least := map[time.Duration]time.Duration{}
	rounds, losses := repeat(t), 0
	for round := range rounds {
		for _, r := range cutAfterRests(t, servers, round) {
			before, known := least[r.timeout]
			if losses++; !known || r.margin < before {
				least[r.timeout] = r.margin
			}
			assert.Positive(t, r.margin, "T = %v, waited: %v: two holders", r.timeout, r.waits)
		}
	}
	kit.Figure(t, "P1 after a rest: %d losses at %d cuts on %s, least margin by T: %v", losses, rounds, servers.Name(), least)
}

// rested is a hold that began after a rest.
type rested struct {
	timeout time.Duration
	waits   bool // its contender has waited for it
	margin  time.Duration
}

// cutAfterRests lets clients rest, acquire their locks at one moment, and lose them.
func cutAfterRests(t *testing.T, servers *zkserver.Ensemble, round int) []*rested {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, servers.AwaitServing(ctx))
	leader, err := servers.Leader(ctx)
	require.NoError(t, err)
	troubled := (leader + 1 + round%2) % servers.Size()
	var healthy []string
	for i := range servers.Size() {
		if i != troubled {
			healthy = append(healthy, servers.Addr(i))
		}
	}
	elsewhere, _ := kit.Connected(t, strings.Join(healthy, ","), framework.WithSessionTimeout(30*time.Second))
	defer elsewhere.Close()
	var (
		all     []*rested
		holders sync.WaitGroup
		ready   sync.WaitGroup // the holders hold, and the next contenders wait
		begin   = make(chan struct{})
		cut     = make(chan struct{})
		errs    = make(chan error, 200)
	)
	for _, timeout := range []time.Duration{20 * time.Second, 30 * time.Second, 40 * time.Second} {
		for i := range 24 {
			r := &rested{timeout: timeout, waits: i%2 == 0}
			all = append(all, r)
			ready.Add(1)
			holders.Go(func() {
				path := fmt.Sprintf("/rest/%d/%v/%d", round, timeout, i)
				errs <- r.play(ctx, t, servers.Addr(troubled), elsewhere, path, begin, &ready, cut)
			})
		}
	}
	time.Sleep(15 * time.Second)
	close(begin)
	ready.Wait()
	assert.NoError(t, servers.Partition(troubled))
	close(cut)
	holders.Wait()
	close(errs)
	for err := range errs {
		assert.NoError(t, err)
	}
	require.NoError(t, servers.HealPeers())
	return all
}

// play plays one holder. elsewhere is the client of the holder before it and of the one after it.
func (r *rested) play(ctx context.Context, t *testing.T, addr string, elsewhere *framework.Client, path string,
	begin <-chan struct{}, ready *sync.WaitGroup, cut <-chan struct{},
) error {
	done := sync.OnceFunc(ready.Done)
	defer done()
	time.Sleep(rand.N(8 * time.Second)) // the phases of the rest against pings and ticks
	client := kit.Dial(t, addr, framework.WithSessionTimeout(r.timeout))
	defer client.Close()
	if err := client.WaitConnected(ctx); err != nil {
		return err
	}
	other := mutex.New(elsewhere, path, mutex.WithLossPolicy(framework.SessionOnly))
	var before *mutex.Lock
	var err error
	got := make(chan *mutex.Lock, 1)
	acquire := func() {
		lock, failed := mutex.New(client, path, mutex.WithLossPolicy(framework.SessionOnly)).Acquire(ctx)
		if err = failed; err == nil {
			got <- lock
		}
		close(got)
	}
	if r.waits {
		if before, err = other.Acquire(ctx); err != nil {
			return err
		}
		go acquire()
		<-begin
		if err := before.Release(ctx); err != nil {
			return err
		}
	} else {
		<-begin
		acquire()
	}
	lock, ok := <-got
	if !ok {
		return err
	}
	ended := kit.EndOf(t, lock.Context().Done())
	queued := make(chan struct{})
	var once sync.Once
	next := mutex.New(elsewhere, path, mutex.WithLossPolicy(framework.SessionOnly),
		mutex.OnWait(func(mutex.Position) { once.Do(func() { close(queued) }) }))
	granted := make(chan grant, 1)
	go func() {
		lock, err := next.Acquire(ctx)
		granted <- grant{lock, time.Now(), err}
	}()
	<-queued
	done()
	<-cut
	g := <-granted
	if g.err != nil {
		return g.err
	}
	r.margin = g.at.Sub(<-ended)
	return g.lock.Release(ctx)
}
