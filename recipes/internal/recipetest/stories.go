package recipetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Take acquires a hold; release releases it.
type Take func(ctx context.Context, random *rand.Rand) (release func(context.Context) error, err error)

// CancelAtRandomMoments runs workers that acquire 50 times each. taker returns the acquire of a client. Each acquire has a
// random time limit below most, so that some end at the moment of a grant. It asserts that no acquire takes longer than
// its limit, or fails with another error than context.DeadlineExceeded and fails, and that no node is left in dirs.
func CancelAtRandomMoments(t *testing.T, s *zktest.Server, workers int, most time.Duration, taker func(
	*framework.Client,
) Take, dirs []string, fails ...error) {
	t.Helper()
	const times = 50
	clients := []*framework.Client{Client(t, s), Client(t, s), Client(t, s), Client(t, s)}
	s.Delay(0, 3*time.Millisecond) // replies take time, so that every moment of an acquire can be hit
	fails = append(fails, context.DeadlineExceeded)
	acquired := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range workers {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		take := taker(clients[worker%len(clients)])
		turn := func() bool {
			limit := Below(random, most)
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			began := time.Now()
			release, err := take(ctx, random)
			if err != nil {
				if took := time.Since(began); took > limit {
					t.Errorf("a call with %v took %v", limit, took)
				}
				if !slices.ContainsFunc(fails, func(target error) bool { return errors.Is(err, target) }) {
					t.Error(err)
				}
				return false
			}
			time.Sleep(Below(random, 4*time.Millisecond))
			if err := release(context.Background()); err != nil {
				t.Error(err)
			}
			return true
		}
		wg.Go(func() {
			for range times {
				if turn() {
					mu.Lock()
					acquired++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if all := workers * times; acquired <= 20 || acquired >= all*5/8 {
		t.Fatalf("%d of %d were acquired: choose a limit with which a part is", acquired, all)
	}
	s.Heal()
	time.Sleep(time.Second)
	Clean(t, s, dirs...)
	Tidy(t, clients...)
}

// CancelWhileTheServerHangs makes calls, one after the other, while the server replies to nothing. It asserts that each
// call returns when its context ends, and that no node is left in dirs after the server has resumed.
func CancelWhileTheServerHangs(t *testing.T, s *zktest.Server, dirs []string, calls ...func(
	context.Context,
) error) {
	t.Helper()
	s.Pause()
	for i, call := range calls {
		const limit = 100 * time.Millisecond
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := call(ctx)
		cancel()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != limit {
			t.Fatalf("call %d took %v and returned %v", i, took, err)
		}
	}
	s.Resume()
	time.Sleep(2 * time.Second)
	Clean(t, s, dirs...)
}

// Below returns a random duration below most.
func Below(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}
