package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest/chaos"
)

// The services below each make one mistake that a review may miss; the correct version of each makes none.

// worker works under a lock, in slow steps.
func worker(step func(lock *mutex.Lock) bool) func(*chaos.World) {
	return func(w *chaos.World) {
		right, made := w.Exclusive("job"), w.Progress("jobs")
		for range 3 {
			w.Start("worker", func(p *chaos.Process) {
				client := connect(w, p)
				defer client.Close()
				m := mutex.New(client, "/job", mutex.WithLossPolicy(framework.SessionOnly))
				for p.Context().Err() == nil {
					lock, err := m.Acquire(p.Context())
					if err != nil {
						pause(p.Context(), time.Second)
						continue
					}
					held := right.GrantedWith(p, lock.FencingToken(), lock.Context())
					for n := 0; n < 20 && step(lock); n++ {
						held.Use("step %d", n)
					}
					made.Made(p)
					held.Done()
					release(p, lock)
				}
			})
		}
	}
}

// ownLock is a lock without the recipe: an ephemeral sequential node, and a wait until it is the first.
type ownLock struct {
	unprotected bool // a create whose reply was lost is sent again
	leaks       bool // a waiter that gives up keeps its node
}

func (l ownLock) acquire(ctx context.Context, client *framework.Client) (node string, err error) {
	create := client.Create().WithMode(framework.EphemeralSequential).CreatingParentsIfNeeded()
	if !l.unprotected {
		create = create.WithProtection()
	}
	for {
		node, err = create.ForPath(ctx, "/own/lock-", nil)
		if err == nil || ctx.Err() != nil || !l.unprotected {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	if err != nil {
		return "", err
	}
	for {
		names, err := client.GetChildren().ForPath(ctx, "/own")
		if err == nil {
			order := func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) }
			if slices.MinFunc(names, order) == path.Base(node) {
				return node, nil
			}
			if !slices.Contains(names, path.Base(node)) {
				return "", framework.ErrNoNode
			}
		}
		if !pause(ctx, 300*time.Millisecond) {
			if !l.leaks {
				give(client, node)
			}
			return "", ctx.Err()
		}
	}
}

func give(client *framework.Client, node string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.Delete().Guaranteed().Quietly().ForPath(ctx, node)
}

func (l ownLock) service(w *chaos.World) {
	made := w.Progress("jobs")
	for range 3 {
		w.Start("worker", func(p *chaos.Process) {
			client := connect(w, p)
			defer client.Close()
			for p.Context().Err() == nil {
				ctx, cancel := context.WithTimeout(p.Context(), 5*time.Second)
				node, err := l.acquire(ctx, client)
				cancel()
				if err != nil {
					pause(p.Context(), time.Second)
					continue
				}
				pause(p.Context(), 2*time.Second)
				made.Made(p)
				give(client, node)
			}
		})
	}
}

// suspended considers its lock lost when the connection is suspended; the correct version waits for the end of the
// lock's context.
func suspended(mistake bool) func(*chaos.World) {
	return func(w *chaos.World) {
		made := w.Progress("jobs")
		for range 2 {
			w.Start("worker", func(p *chaos.Process) {
				client := connect(w, p)
				defer client.Close()
				trouble := make(chan struct{}, 1)
				go func() { // until the client is closed
					for s := range client.StateChanges(p.Context()) {
						if s.State == framework.Suspended {
							select {
							case trouble <- struct{}{}:
							default:
							}
						}
					}
				}()
				m := mutex.New(client, "/job", mutex.WithLossPolicy(framework.SessionOnly))
				for p.Context().Err() == nil {
					lock, err := m.Acquire(p.Context())
					if err != nil {
						pause(p.Context(), time.Second)
						continue
					}
					for range 5 {
						select {
						case <-trouble:
							if mistake {
								p.Logf("suspended: the lock is lost, so there is nothing to release")
								lock = nil
							}
						case <-lock.Context().Done():
						case <-time.After(time.Second):
							made.Made(p)
						}
						if lock == nil || !lock.Valid() {
							break
						}
					}
					if lock != nil {
						release(p, lock)
					}
				}
			})
		}
	}
}

// told reads a node of which it has learned outside ZooKeeper. The correct version writes first, so that its server has
// executed all earlier writes.
func told(mistake bool) func(*chaos.World) {
	return func(w *chaos.World) {
		made := w.Progress("messages")
		written := make(chan int, 1000)
		w.Start("writer", func(p *chaos.Process) {
			client := connect(w, p)
			defer client.Close()
			for n := 1; pause(p.Context(), 500*time.Millisecond); n++ {
				node := fmt.Sprintf("/message-%d", n%10)
				if _, err := client.Create().OrSetData().ForPath(p.Context(), node, []byte("x")); err == nil {
					select {
					case written <- n % 10:
					default:
					}
				}
			}
		})
		w.Start("reader", func(p *chaos.Process) {
			client := connect(w, p)
			defer client.Close()
			for {
				select {
				case <-p.Context().Done():
					return
				case n := <-written:
					node := fmt.Sprintf("/message-%d", n)
					if !mistake {
						// A sync is not enough: a former leader that does not know that it is none replies to it with
						// its own state.
						if _, err := client.Create().OrSetData().ForPath(p.Context(), "/reader", nil); err != nil {
							continue
						}
					}
					_, err := client.GetData().ForPath(p.Context(), node)
					if errors.Is(err, framework.ErrNoNode) {
						w.Violate("a message is missing", "%v was told of %s, and there is none", p, node)
					}
					made.Made(p)
				}
			}
		})
	}
}

// latch leads with a token, which stays the same when it leads again with the same node.
func latch(w *chaos.World) {
	right, made := w.Exclusive("lead"), w.Progress("terms")
	for range 3 {
		w.Start("leader", func(p *chaos.Process) {
			client := connect(w, p)
			defer client.Close()
			l, err := leader.NewLatch(client, "/lead")
			require.NoError(w, err)
			defer l.Close()
			for {
				term, err := l.Await(p.Context())
				if p.Context().Err() != nil {
					return
				}
				if err != nil {
					pause(p.Context(), time.Second)
					continue
				}
				led := right.GrantedWith(p, term.FencingToken(), term.Context())
				for n := 0; n < 5 && pause(term.Context(), time.Second) && p.Context().Err() == nil; n++ {
					led.Use("step %d", n)
					made.Made(p)
				}
				led.Done()
				if term.Valid() {
					_ = term.Resign(p.Context())
				}
			}
		})
	}
}

// selector leads with a token.
func selector(w *chaos.World) {
	right, made := w.Exclusive("lead"), w.Progress("terms")
	for range 3 {
		w.Start("leader", func(p *chaos.Process) {
			client := connect(w, p)
			defer client.Close()
			s := leader.NewSelector(client, "/lead", func(ctx context.Context) error {
				led := right.GrantedWith(p, leader.TermOf(ctx).FencingToken(), ctx)
				defer led.Done()
				for n := 0; n < 5 && pause(ctx, time.Second); n++ {
					led.Use("step %d", n)
					made.Made(p)
				}
				return nil
			})
			for p.Context().Err() == nil {
				_ = s.Run(p.Context())
				pause(p.Context(), time.Second)
			}
		})
	}
}

// bare leads with go-zookeeper alone, by an ephemeral node. That library reports an expired session only when a server
// has reported it.
func bare(w *chaos.World) {
	right := w.Exclusive("lead")
	for range 2 {
		w.Start("worker", func(p *chaos.Process) {
			conn, events, err := zk.Connect(
				w.Servers(),
				w.SessionTimeout(),
				zk.WithDialer(p.Dialer()),
				zk.WithLogger(quiet{}),
			)
			if err != nil {
				w.Errorf("%v", err)
				return
			}
			defer conn.Close()
			for p.Context().Err() == nil {
				if _, err := conn.Create("/leader", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
					pause(p.Context(), time.Second)
					continue
				}
				led := right.Granted(p)
				for expired := false; !expired && p.Context().Err() == nil; {
					select {
					case e := <-events:
						expired = e.State == zk.StateExpired
					case <-p.Context().Done():
					}
				}
				led.Done()
			}
		})
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func connect(w *chaos.World, p *chaos.Process) *framework.Client {
	client, err := framework.New(
		w.ConnectString(),
		framework.WithDialer(p.Dial),
		framework.WithSessionTimeout(w.SessionTimeout()),
	)
	require.NoError(w, err)
	return client
}

// createNodes creates n ephemeral nodes in the order of their numbers.
func createNodes(w *chaos.World, p *chaos.Process, client *framework.Client, n int) (nodes []string) {
	for range n {
		node, err := client.Create().WithMode(framework.EphemeralSequential).ForPath(p.Context(), "/node-", nil)
		require.NoError(w, err)
		nodes = append(nodes, node)
	}
	return nodes
}

// pause waits for d or the end of the context, and reports whether it waited for all of d.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func release(p *chaos.Process, lock *mutex.Lock) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := lock.Release(ctx); err != nil {
		p.Logf("release: %v", err)
	}
}

func looksAfterTheWait(lock *mutex.Lock) bool {
	return pause(lock.Context(), time.Second) && lock.Valid()
}

// Each mistake is found soon, and by a plan of few faults. Shrinking takes most of the time, so only a run of all
// schedules does it.
func TestMistakesAreFound(t *testing.T) {
	for name, service := range map[string]func(*chaos.World){
		"ignores-its-context": worker(func(*mutex.Lock) bool { time.Sleep(time.Second); return true }),
		"looks-before-a-wait-only": worker(func(lock *mutex.Lock) bool {
			if !lock.Valid() {
				return false
			}
			time.Sleep(time.Second)
			return true
		}),
		"repeats-a-create":             ownLock{unprotected: true}.service,
		"leaves-its-node":              ownLock{leaks: true}.service,
		"takes-suspended-for-lost":     suspended(true),
		"waits-for-the-server-to-tell": bare,
		"trusts-a-stale-read":          told(true),
	} {
		shrink := time.Duration(-1)
		if all {
			shrink = time.Hour
		}
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			find := func(from uint64) *chaos.Failure {
				require.NoError(t, flag.Set("chaos.from", strconv.FormatUint(from, 10)))
				defer flag.Set("chaos.from", "1")
				found := chaos.Find(t, service, chaos.Config{Count: 10_000, Patience: 90 * time.Second, Shrink: shrink})
				require.NotNil(t, found, "not found")
				t.Logf("found within %v:\n%s", time.Since(start).Round(time.Millisecond), found.Report)
				assert.LessOrEqual(t, found.Runs, uint64(200))
				return found
			}
			found := find(1)
			if !all {
				return
			}
			for range 2 { // the faults that are necessary together depend on the plan that was found
				if len(found.Plan.Faults) > 3 {
					found = find(found.Plan.Seed + 1)
				}
			}
			assert.LessOrEqual(t, len(found.Plan.Faults), 3)
		})
	}
}

// all reports whether all schedules are played, as by scripts/test all.
var all = os.Getenv("CURATOR_TEST_SCHEDULES") == "all"

// few returns the number of schedules that a test plays.
func few(t *testing.T, n uint64) uint64 {
	t.Helper()
	if all {
		return n
	}
	t.Logf("figure: %d of %d schedules of %s: CURATOR_TEST_SCHEDULES=all plays all", n/10, n, t.Name())
	return n / 10
}

// No mistake is found in the correct versions.
func TestNoMistakes(t *testing.T) {
	for name, service := range map[string]func(*chaos.World){
		"looks-after-the-wait":   worker(looksAfterTheWait),
		"own-lock":               ownLock{}.service,
		"heeds-the-context":      suspended(false),
		"writes-before-it-reads": told(false),
		"latch":                  latch,
		"selector":               selector,
	} {
		t.Run(name, func(t *testing.T) { chaos.Test(t, service, chaos.Config{Count: few(t, 50)}) })
	}
}
