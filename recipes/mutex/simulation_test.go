package mutex_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// history watches over all locks of a simulation: never two live ones, and tokens that grow.
type history struct {
	mu      sync.Mutex
	current *mutex.Lock
	token   int64
	grants  int
}

func (h *history) granted(t *testing.T, lock *mutex.Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	live := lock.Context().Err() == nil // it may be lost again already
	if h.current != nil && live {
		assert.Error(t, h.current.Context().Err(), "%s is granted the lock while %s holds it", lock.Node(), h.current.Node())
	}
	assert.Greater(t, lock.FencingToken(), h.token)
	h.current, h.token = lock, lock.FencingToken()
	h.grants++
}

// Many clients, and a network and a server that misbehave at random. Whatever happens: one holder at a time, tokens grow, everybody gets
// a turn in the end, and nothing is left. A failing seed fails again.
func TestSimulation(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			simulate(t, seed)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	const workers, rounds = 5, 8
	s := zktest.RunT(t)
	random := rand.New(rand.NewPCG(seed, 0))
	below := func(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	var h history
	var wg sync.WaitGroup
	clients := make([]*framework.Client, workers)
	for w := range workers {
		clients[w] = newClient(t, s, framework.WithSessionTimeout(4*time.Second))
		m := mutex.New(clients[w], path)
		r := rand.New(rand.NewPCG(seed, uint64(w)+1))
		wg.Go(func() {
			for done := 0; done < rounds; {
				ctx, cancel := context.WithTimeout(background, time.Minute)
				if r.IntN(4) == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(background, below(r, 2*time.Second))
				}
				lock, err := m.Acquire(ctx)
				cancel()
				if err != nil {
					known := errors.Is(err, context.DeadlineExceeded) || framework.Retryable(err)
					assert.True(t, known, "%v", err)
					time.Sleep(below(r, time.Second))
					continue
				}
				h.granted(t, lock)
				done++
				timer := time.NewTimer(below(r, time.Second))
				select {
				case <-timer.C:
				case <-lock.Context().Done():
				}
				timer.Stop()
				ctx, cancel = context.WithTimeout(background, below(r, 10*time.Second))
				_ = lock.Release(ctx) // however it ends
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	chaos := make(chan struct{})
	go func() {
		defer close(chaos)
		for {
			select {
			case <-time.After(below(random, 2*time.Second)):
			case <-stop:
				return
			}
			victim := clients[random.IntN(workers)]
			session, err := victim.Session(background)
			if err != nil {
				return
			}
			id := session.ID()
			ops := []string{"create2", "getChildren2", "getData", "delete", "exists", "ping", "connect", "multi"}
			actions := []zktest.Action{zktest.DropRequest, zktest.CutBefore, zktest.LoseReply, zktest.HoldReply, zktest.DelayReply}
			// No Expire: a session that the server ends before its time is not covered by the promise, and told apart in no other way.
			switch random.IntN(8) {
			case 0:
				s.Cut(id)
			case 1:
				s.BlackHole(id, []zktest.Direction{zktest.Both, zktest.FromClient, zktest.Both &^ zktest.FromClient}[random.IntN(3)])
			case 2, 3:
				s.Pause()
				time.Sleep(below(random, 6*time.Second))
				s.Resume()
			case 4:
				s.Heal()
			case 5:
				s.Stop()
				time.Sleep(below(random, 3*time.Second))
				if !assert.NoError(t, s.Start()) {
					return
				}
			default:
				fault := s.Inject(zktest.Fault{Op: ops[random.IntN(len(ops))], After: random.IntN(3), Action: actions[random.IntN(len(actions))],
					Delay: below(random, 3*time.Second)})
				time.Sleep(below(random, 2*time.Second))
				fault.Remove()
				fault.Release()
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-chaos
	s.Heal()
	require.Equal(t, workers*rounds, h.grants)
	time.Sleep(20 * time.Second) // sessions of the dead end, and clean-ups
	if s.Exists(path) {
		clean(t, s, path)
	}
	for _, c := range clients {
		require.Zero(t, c.PendingCleanups())
	}
}
