package framework

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// Promise P1 over random faults, under both rules: a hold has ended while its node is still there, unless another client
// took the node or the session away; and when a loss is announced no hold of that epoch is valid. A failure is repeated
// with its seed.
func TestHoldsEndBeforeTheirNodes(t *testing.T) {
	seeds := uint64(15)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func storm(t *testing.T, random *rand.Rand) {
	cfg := zktest.Config{}
	if random.IntN(2) == 0 {
		cfg.EnsembleConfig = ensemble
	}
	srv := zktest.RunT(t, cfg)
	timeout := time.Duration(4+random.IntN(30)) * time.Second
	c := dial(t, srv, WithSessionTimeout(timeout), WithRetry(retry.RetryForever{Sleep: time.Second}),
		// in virtual time the old session's end would come at the very instant of the loss
		WithFenceGrace(time.Millisecond))
	var mu sync.Mutex
	alive := map[*Hold]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup

	work.Go(func() {
		var last int64
		for change := range c.StateChanges(ctx) {
			if change.Epoch < last || change.State == Lost && change.Epoch != last {
				t.Errorf("%v after epoch %d", change, last)
			}
			last = change.Epoch
			if change.State != Lost {
				continue
			}
			mu.Lock()
			for h := range alive {
				if h.e.number <= change.Epoch && (h.Valid() || h.Context().Err() == nil) {
					t.Errorf("a hold of epoch %d is alive after %v", h.e.number, change)
				}
			}
			mu.Unlock()
		}
	})
	for i := range 3 {
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				held(ctx, t, srv, c, fmt.Sprintf("/lock-%d-%d", i, n), &mu, alive)
			}
		})
	}
	for range 40 {
		time.Sleep(time.Duration(random.Int64N(int64(timeout))))
		dur := time.Duration(random.Int64N(int64(2 * timeout)))
		switch random.IntN(6) {
		case 0:
			srv.Cut(0)
		case 1:
			srv.BlackHole(0, zktest.Direction(1+random.IntN(3)))
			time.Sleep(dur)
			srv.Heal()
		case 2:
			srv.Pause()
			time.Sleep(dur)
			srv.Resume()
		case 3:
			srv.Stop()
			time.Sleep(dur)
			require.NoError(t, srv.Start())
		case 4:
			srv.Delay(0, dur/4)
			time.Sleep(dur)
			srv.Heal()
		case 5:
			stall := srv.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.DropRequest})
			time.Sleep(dur)
			stall.Remove()
		}
	}
	cancel()
	work.Wait()
	time.Sleep(2 * timeout) // for a connection that is half dead to be replaced
	require.NoError(t, c.WaitConnected(t.Context()))
	require.NoError(t, c.Close())
	for _, left := range srv.Sessions() { // for example a session whose handshake got no reply
		require.Empty(t, left.Ephemerals)
	}
}

// held holds one node until it is lost, or for a while.
func held(
	ctx context.Context, t *testing.T, srv *zktest.Server, c *Client, path string, mu *sync.Mutex,
	alive map[*Hold]bool,
) {
	s, err := c.Session(ctx)
	if err != nil {
		return
	}
	var stat Stat
	create := s.Client().Create().WithMode(Ephemeral).StoringStatIn(&stat)
	if _, err := create.ForPath(ctx, path, nil); err != nil {
		return
	}
	h, err := s.Hold(ctx, HoldOptions{Path: path, Czxid: stat.Czxid, Loss: SessionOnly})
	if err != nil {
		return
	}
	mu.Lock()
	alive[h] = true
	mu.Unlock()
	select {
	case <-h.Context().Done():
		if cause := context.Cause(h.Context()); !errors.Is(cause, ErrSessionLost) {
			t.Errorf("%s ended: %v", path, cause)
		}
		if !srv.Exists(path) {
			t.Errorf("the node of %s was gone before the hold: %v", path, context.Cause(h.Context()))
		}
	case <-time.After(3 * c.Safety().SessionTimeout):
		if !srv.Exists(path) {
			t.Errorf("%s held without a node", path)
		}
		h.End(nil)
	case <-ctx.Done():
		h.End(nil)
	}
	mu.Lock()
	delete(alive, h)
	mu.Unlock()
}
