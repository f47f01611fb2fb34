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

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// everyOperation runs each operation in the foreground, on /a, which exists. The names are those of the
// requests.
var everyOperation = []struct {
	name, op string
	safe     bool // repeated whatever happened
	do       func(ctx context.Context, c *Client) error
}{
	{
		"exists", "exists", true,
		func(ctx context.Context, c *Client) error { return errOf(c.CheckExists().ForPath(ctx, "/a")) },
	},
	{"watched exists", "exists", true, func(ctx context.Context, c *Client) error {
		_, w, err := c.CheckExists().WithWatch().ForPath(ctx, "/a")
		return stopped(w, err)
	}},
	{
		"getData", "getData", true,
		func(ctx context.Context, c *Client) error { return errOf(c.GetData().ForPath(ctx, "/a")) },
	},
	{"watched getData", "getData", true, func(ctx context.Context, c *Client) error {
		_, w, err := c.GetData().WithWatch().ForPath(ctx, "/a")
		return stopped(w, err)
	}},
	{
		"getChildren", "getChildren2", true,
		func(ctx context.Context, c *Client) error { return errOf(c.GetChildren().ForPath(ctx, "/a")) },
	},
	{"watched getChildren", "getChildren2", true, func(ctx context.Context, c *Client) error {
		_, w, err := c.GetChildren().WithWatch().ForPath(ctx, "/a")
		return stopped(w, err)
	}},
	{"addWatch", "addWatch", true, func(ctx context.Context, c *Client) error {
		w, err := c.Watches().Add().ForPath(ctx, "/a")
		return stopped(w, err)
	}},
	{"sync", "sync", true, func(ctx context.Context, c *Client) error { return c.Sync().ForPath(ctx, "/a") }},
	{
		"getACL", "getACL", true,
		func(ctx context.Context, c *Client) error { return errOf(c.GetACL().ForPath(ctx, "/a")) },
	},
	{"multiRead", "multiRead", true, func(ctx context.Context, c *Client) error {
		return errOf(c.MultiRead().ForReads(ctx, ReadData("/a")))
	}},
	{"setACL", "setACL", true, func(ctx context.Context, c *Client) error {
		return errOf(c.SetACL().WithACL(OpenACL()...).ForPath(ctx, "/a"))
	}},
	{
		"setData", "setData", true,
		func(ctx context.Context, c *Client) error { return errOf(c.SetData().ForPath(ctx, "/a", nil)) },
	},
	{"protected create", "create2", true, func(ctx context.Context, c *Client) error {
		return errOf(c.Create().WithProtection().WithMode(EphemeralSequential).ForPath(ctx, "/a/x-", nil))
	}},
	{"create or set", "create2", true, func(ctx context.Context, c *Client) error {
		return errOf(c.Create().OrSetData().ForPath(ctx, "/a/y", nil))
	}},
	{"idempotent create", "create2", true, func(ctx context.Context, c *Client) error {
		return errOf(c.Create().Idempotent().ForPath(ctx, "/a/i", nil))
	}},
	{"ensure", "create", true, func(ctx context.Context, c *Client) error { return c.Ensure(ctx, "/a/f") }},
	{
		"getConfig", "getData", true,
		func(ctx context.Context, c *Client) error { return errOf(c.GetConfig(ctx)) },
	},
	{
		"createContainers", "createContainer", true,
		func(ctx context.Context, c *Client) error { return c.CreateContainers(ctx, "/a/c") },
	},
	{
		"create", "create2", false,
		func(ctx context.Context, c *Client) error { return errOf(c.Create().ForPath(ctx, "/a/z", nil)) },
	},
	{"sequential create", "create2", false, func(ctx context.Context, c *Client) error {
		return errOf(c.Create().WithMode(EphemeralSequential).ForPath(ctx, "/a/s-", nil))
	}},
	{
		"delete", "delete", false,
		func(ctx context.Context, c *Client) error { return c.Delete().ForPath(ctx, "/a/d") },
	},
	{
		"quiet delete", "delete", true,
		func(ctx context.Context, c *Client) error { return c.Delete().Quietly().ForPath(ctx, "/a/e") },
	},
	{"transaction", "multi", false, func(ctx context.Context, c *Client) error {
		return errOf(c.Transaction(ctx, c.TransactionOp().SetData().ForPath("/a", nil)))
	}},
}

func stopped(w *Watch, err error) error {
	if w != nil {
		w.Stop()
	}
	return err
}

// asked counts how often a policy is asked, and allows n retries.
type asked struct {
	mu    sync.Mutex
	times int
	n     int
}

func (p *asked) NewBackOff() backoff.BackOff {
	b := retry.RetryNTimes{Retries: p.n, Sleep: time.Second}.NewBackOff()
	return &askedBackOff{b, p}
}

func (p *asked) reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.times
	p.times = 0
	return n
}

type askedBackOff struct {
	backoff.BackOff
	p *asked
}

func (b *askedBackOff) NextBackOff() time.Duration {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.times++
	return b.BackOff.NextBackOff()
}

// The configured policy decides about every retryable error of every operation, and about no other.
func TestThePolicyIsAsked(t *testing.T) {
	for _, tc := range everyOperation {
		t.Run(tc.name, func(t *testing.T) {
			policy := &asked{n: 3}
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				ctx := t.Context()
				for _, p := range []string{"/a", "/a/d", "/a/e"} {
					make1(t, c, p, "")
				}
				policy.reset()

				// Certainly not executed: tried as often as the policy allows.
				for _, e := range []struct {
					by   zktest.Error
					want error
				}{{zktest.ErrSessionMoved, ErrSessionMoved}, {zktest.ErrOperationTimeout, ErrOperationTimeout}} {
					if !tc.safe && e.want == ErrOperationTimeout {
						continue
					}
					i := srv.Inject(zktest.Fault{Op: tc.op, Times: -1, Action: zktest.ReplyError, Err: e.by})
					began := time.Now()
					assert.ErrorIs(t, tc.do(ctx, c), e.want)
					assert.Equal(t, 3*time.Second, time.Since(began), "three waits of the policy's length")
					assert.Equal(t, 4, policy.reset(), "%v", e.want)
					assert.GreaterOrEqual(t, i.Hits(), 4)
					i.Remove()
				}

				// Lost before it is executed; the repeat succeeds.
				cut := srv.Inject(zktest.Fault{Op: tc.op, Action: zktest.CutBefore})
				err := tc.do(ctx, c)
				if tc.name == "sequential create" || tc.name == "transaction" {
					assert.ErrorIs(t, err, ErrConnectionLoss)
					assert.Zero(t, policy.reset(), "not safe to repeat")
				} else {
					assert.NoError(t, err)
					assert.Equal(t, 1, policy.reset())
				}
				assert.Equal(t, 1, cut.Hits())
				connected(t, c)
				for _, p := range []string{"/a/d", "/a/e"} {
					_, err := c.Create().OrSetData().ForPath(ctx, p, nil)
					require.NoError(t, err)
				}
				for _, p := range []string{"/a/z", "/a/i"} {
					require.NoError(t, c.Delete().Quietly().ForPath(ctx, p))
				}
				policy.reset()

				// Executed, and the reply lost.
				srv.Inject(zktest.Fault{Op: tc.op, Action: zktest.LoseReply})
				err = tc.do(ctx, c)
				if tc.safe {
					assert.NoError(t, err)
					assert.Equal(t, 1, policy.reset())
				} else {
					assert.ErrorIs(t, err, ErrConnectionLoss)
					assert.LessOrEqual(t, policy.reset(), 1)
				}

				// The policy is not asked about a refusal.
				srv.Inject(zktest.Fault{Op: tc.op, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
				assert.ErrorIs(t, tc.do(ctx, c), ErrNoAuth)
				assert.Zero(t, policy.reset())

				// No connection: each try takes the connection timeout.
				srv.Stop()
				synctest.Wait()
				began := time.Now()
				err = tc.do(ctx, c)
				assert.ErrorIs(t, err, ErrNotConnected)
				assert.NotErrorIs(t, err, ErrOutcomeUnknown)
				assert.Equal(t, 4, policy.reset())
				assert.Equal(t, 4*2*time.Second+3*time.Second, time.Since(began))
			}, WithRetry(policy), WithConnectionTimeout(2*time.Second), WithSessionTimeout(40*time.Second))
		})
	}
}

// P4: no call outlives its context, whatever the server does; in virtual time it returns in the same instant.
func TestNoCallOutlivesItsContext(t *testing.T) {
	for name, breakIt := range map[string]func(*zktest.Server){
		"paused":     func(srv *zktest.Server) { srv.Pause() },
		"black hole": func(srv *zktest.Server) { srv.BlackHole(0, zktest.Both) },
		"stopped":    func(srv *zktest.Server) { srv.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				for _, p := range []string{"/a", "/a/d", "/a/e"} {
					make1(t, c, p, "")
				}
				breakIt(srv)
				synctest.Wait()
				why := errors.New("the caller's reason")
				var wg sync.WaitGroup
				for _, tc := range everyOperation {
					for _, after := range []time.Duration{
						time.Millisecond, time.Second, 5 * time.Second, 25 * time.Second, time.Minute,
					} {
						wg.Go(func() {
							ctx, cancel := context.WithTimeoutCause(t.Context(), after, why)
							defer cancel()
							began := time.Now()
							err := tc.do(ctx, c)
							if took := time.Since(began); !tc.safe && took < after {
								assert.ErrorIs(t, err, ErrConnectionLoss, tc.name) // an operation that is not repeated ends with the connection
								return
							}
							assert.ErrorIs(t, err, context.DeadlineExceeded, tc.name)
							assert.ErrorIs(t, err, why, tc.name)
							assert.Equal(t, after, time.Since(began), tc.name)
						})
					}
				}
				wg.Wait()
				srv.Resume()
				srv.Heal()
				require.NoError(t, srv.Start())
				connected(t, c)
				time.Sleep(time.Minute)
				assert.Zero(t, c.PendingCleanups())
				assert.Empty(t, protectedNodes(srv))
				assert.Empty(t, srv.Watches())
			}, WithRetry(retry.RetryForever{Sleep: time.Second}))
		})
	}
}

// P3: protected creates whose callers stop waiting at random moments, while connections are lost, leave nothing: no node,
// no watch, no clean-up.
func TestNothingIsLeftBehind(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				require.NoError(t, c.CreateContainers(t.Context(), "/locks"))
				srv.Delay(0, 5*time.Millisecond)
				var mu sync.Mutex
				kept := map[string]bool{}
				var wg sync.WaitGroup
				for range 200 {
					start := time.Duration(rnd.IntN(10000)) * time.Millisecond
					leave := time.Duration(rnd.IntN(20_000)) * time.Microsecond
					mode := []CreateMode{EphemeralSequential, PersistentSequential, Ephemeral}[rnd.IntN(3)]
					background, watch := rnd.IntN(2) == 0, rnd.IntN(4) == 0
					wg.Go(func() {
						time.Sleep(start)
						ctx, cancel := context.WithTimeout(t.Context(), leave)
						defer cancel()
						if watch {
							_, w, err := c.GetChildren().WithWatch().ForPath(ctx, "/locks")
							assert.Equal(t, err == nil, w != nil)
							if w != nil {
								defer w.Stop()
							}
						}
						b := c.Create().WithMode(mode).WithProtection()
						var path string
						var err error
						if background {
							var r CreateResult
							r, err = b.InBackground().ForPath(ctx, "/locks/lock-", nil).Wait(t.Context())
							path = r.Path
						} else {
							path, err = b.ForPath(ctx, "/locks/lock-", nil)
						}
						if err == nil {
							mu.Lock()
							defer mu.Unlock()
							kept[path] = mode.isEphemeral()
						}
					})
				}
				wg.Go(func() {
					for range 10 {
						time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
						switch rnd.IntN(5) {
						case 0, 1:
							srv.Cut(0)
						case 2:
							_ = srv.Restart()
						case 3:
							srv.BlackHole(0, zktest.ToClient)
							time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
							srv.Heal()
							srv.Delay(0, 5*time.Millisecond)
						case 4:
							srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
						}
					}
				})
				wg.Wait()
				srv.Heal()
				time.Sleep(2 * time.Minute)
				connected(t, c)
				require.Equal(t, int64(1), c.State().Epoch, "so that what was kept is still there")
				assert.NotEmpty(t, kept)
				for _, path := range protectedNodes(srv) {
					assert.Contains(t, kept, path)
					delete(kept, path)
				}
				assert.Empty(t, kept, "what a caller has been told of must be there")
				assert.Empty(t, srv.Watches())
				assert.Zero(t, c.PendingCleanups())
			}, WithRetry(retry.RetryForever{Sleep: time.Millisecond}), WithSessionTimeout(40*time.Second))
		})
	}
}
