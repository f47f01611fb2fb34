package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// found runs a scenario that must violate a check, and returns the first violation.
func found(t *testing.T, scenario func(w *chaos.World), cfg ...chaos.Config) chaos.Violation {
	t.Helper()
	failure := chaos.Find(t, scenario, cfg...)
	require.NotNil(t, failure, "nothing was violated")
	assert.Contains(t, failure.Report, "-chaos.seed=")
	return failure.Violation
}

// process starts a process without a client.
func process(w *chaos.World, name string, body func(p *chaos.Process)) {
	w.Start(name, func(p *chaos.Process) {
		body(p)
		<-p.Context().Done()
	})
}

func TestWhatIsViolated(t *testing.T) {
	quiet := chaos.Config{Every: 1000 * time.Hour, Trouble: 20 * time.Second}
	for name, c := range map[string]struct {
		scenario    func(w *chaos.World)
		check, text string
	}{
		"two hold": {func(w *chaos.World) {
			r := w.Exclusive("right")
			for range 2 {
				process(w, "p", func(p *chaos.Process) { r.Granted(p) })
			}
		}, "right", "has it, and so has"},
		"three hold what two may": {func(w *chaos.World) {
			r := w.Shared("leases", 2)
			for range 3 {
				process(w, "p", func(p *chaos.Process) { r.Granted(p) })
			}
		}, "leases", "has it, and so has"},
		"used when it is done": {func(w *chaos.World) {
			r := w.Exclusive("right")
			process(w, "p", func(p *chaos.Process) {
				g := r.Granted(p)
				g.Done()
				time.Sleep(time.Second)
				g.Use("x")
			})
		}, "right", `does "x", 1s after it has given the right up`},
		"used after it has passed on": {func(w *chaos.World) {
			r := w.Exclusive("right")
			process(w, "p", func(p *chaos.Process) {
				ctx, cancel := context.WithCancel(p.Context())
				g := r.Granted(p, ctx)
				cancel()
				r.Granted(p).Done()
				g.Use("x")
			})
		}, "right", "has passed to another"},
		"used after its end": {func(w *chaos.World) {
			r := w.Exclusive("right")
			process(w, "p", func(p *chaos.Process) {
				ctx, cancel := context.WithCancel(p.Context())
				g := r.Granted(p, ctx)
				cancel()
				time.Sleep(time.Second)
				g.Use("x")
			})
		}, "right", "1s after its right has ended"},
		"tokens": {func(w *chaos.World) {
			r := w.Exclusive("right")
			for range 2 {
				process(w, "p", func(p *chaos.Process) { r.GrantedWith(p, 5).Done() })
			}
		}, "right", "with token 5, and there was 5 before"},
		"always lost already": {func(w *chaos.World) {
			r := w.Exclusive("right")
			process(w, "p", func(p *chaos.Process) {
				for pause(p.Context(), time.Second) {
					lost, cancel := context.WithCancelCause(p.Context())
					cancel(errors.New("long ago"))
					r.Granted(p, lost).Done()
				}
			})
		}, "right", "takes it for the 3th time with a context that had ended: long ago"},
		"a store refuses the holder": {func(w *chaos.World) {
			r, store := w.Shared("right", 1), w.Store("store")
			process(w, "p", func(p *chaos.Process) {
				g := r.GrantedWith(p, 7)
				assert.NoError(w, store.Write(g, "a"))
				g.Done()
				assert.ErrorIs(w, store.Write(r.GrantedWith(p, 6), "b"), chaos.ErrFenced)
				if n := len(store.Entries()); n != 1 {
					w.Violate("entries", "%d", n)
				}
			})
		}, "right", "with token 6, and there was 7 before"},
		"always": {func(w *chaos.World) {
			process(w, "p", func(*chaos.Process) {})
			w.Always("early", func() error {
				if w.Elapsed() > 5*time.Second {
					return errors.New("late")
				}
				return nil
			})
		}, "early", "late"},
		"eventually": {func(w *chaos.World) {
			w.Eventually("never", func() error { return errors.New("not yet") })
		}, "never", "not yet"},
		"finally": {func(w *chaos.World) {
			w.Finally("end", func() error { return errors.New("no") })
		}, "end", "no"},
		"history": {func(w *chaos.World) {
			w.History("ops", func([]chaos.Op) error { return errors.New("odd") })
		}, "ops", "odd"},
		"progress": {func(w *chaos.World) {
			w.Progress("work")
			process(w, "p", func(*chaos.Process) {})
		}, "work", "no progress by anybody"},
		"assertion": {func(w *chaos.World) { require.Equal(w, 1, 2) }, "assertion", "Not equal"},
		"an assertion in a process": {func(w *chaos.World) {
			process(w, "p", func(*chaos.Process) { require.Equal(w, 1, 2) })
		}, "assertion", "Not equal"},
		"of each": {func(w *chaos.World) {
			each := w.ProgressOfEach("work")
			for n := range 2 {
				process(w, "p", func(p *chaos.Process) {
					for n == 0 && pause(p.Context(), time.Second) {
						each.Made(p)
					}
				})
			}
		}, "work", "no progress by p-1"},
		"a node is left": {func(w *chaos.World) {
			_, err := w.Ensemble().Member(0).CreateNode("/left", nil, zktest.Persistent, 0)
			require.NoError(w, err)
			w.Finally("left", func() error { return w.SameAsTree("/left", map[string][]byte{"/left": []byte("x")}) })
		}, "left", `/left is "x" instead of ""`},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			v := found(t, c.scenario, quiet)
			assert.Equal(t, c.check, v.Check)
			assert.Contains(t, v.Text, c.text)
		})
	}
}

// A child process that ends, or would run for ever, is the failure of one schedule, with a reason.
func TestASchedulesProcessDies(t *testing.T) {
	quiet := chaos.Config{Every: 1000 * time.Hour, Trouble: 5 * time.Second, Patience: time.Minute}
	for name, c := range map[string]struct {
		body        func(p *chaos.Process)
		check, text string
	}{
		"panic":           {func(*chaos.Process) { panic("oh") }, "panic", "oh"},
		"panic elsewhere": {func(*chaos.Process) { go panic("oh") }, "process", "panic: oh"},
		"does not stop":   {func(*chaos.Process) { select {} }, "stop", "has not stopped within 1m0s"},
		"leaves a goroutine": {func(*chaos.Process) {
			go func() { select {} }()
		}, "goroutines", "blocked goroutines remain"},
		"runs in circles": {func(p *chaos.Process) {
			for p.Context().Err() == nil {
				runtime.Gosched()
			}
		}, "process", "a goroutine tries again without a pause"},
		"waits for a mutex": {func(p *chaos.Process) {
			var mu sync.Mutex
			mu.Lock()
			go lockUnderAnother(&mu)
			for range 500 { // their stacks are printed, too
				go func() { <-p.Context().Done() }()
			}
			time.Sleep(time.Second)
			mu.Unlock()
		}, "process", "Waiting for a mutex:\n  github.com/go-curator/curator/zktest/chaos_test.lockUnderAnother("},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if name == "runs in circles" || name == "waits for a mutex" {
				chaos.SetStandstill(t, time.Second)
			}
			v := found(t, func(w *chaos.World) { w.Start("p", c.body) }, quiet)
			assert.Equal(t, c.check, v.Check)
			assert.Contains(t, v.Text, c.text)
		})
	}
}

func lockUnderAnother(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}

// A process that pauses between its check and its write is refused by a fenced store, and by nothing else.
func TestAPausedProcess(t *testing.T) {
	service := func(fenced bool) func(*chaos.World) {
		return func(w *chaos.World) {
			right, store, made := w.Exclusive("job"), w.Store("store"), w.Progress("writes")
			for range 3 {
				w.Start("writer", func(p *chaos.Process) {
					client := connect(w, p)
					defer client.Close()
					m := mutex.New(client, "/job")
					for p.Context().Err() == nil {
						lock, err := m.Acquire(p.Context())
						if err != nil {
							pause(p.Context(), time.Second)
							continue
						}
						held := right.GrantedWith(p, lock.FencingToken(), lock.Context())
						for pause(lock.Context(), time.Second) && lock.Valid() && p.Context().Err() == nil {
							if !fenced {
								held.Use("a write")
							} else if err := store.Write(held, "x"); err != nil {
								break
							}
							made.Made(p)
						}
						held.Done()
						release(p, lock)
					}
				})
			}
		}
	}
	cfg := chaos.Config{
		Count:  few(t, 60),
		Faults: append(chaos.Usual(), chaos.PauseProcess, chaos.PauseProcess, chaos.PauseProcess),
	}
	t.Run("fenced", func(t *testing.T) { chaos.Test(t, service(true), cfg) })
	t.Run("not-fenced", func(t *testing.T) {
		cfg := cfg
		cfg.Count, cfg.Shrink = 10_000, -1
		if all { // as TestMistakesAreFound
			cfg.Shrink = time.Hour
		}
		failure := chaos.Find(t, service(false), cfg)
		require.NotNil(t, failure)
		assert.Equal(t, "job", failure.Violation.Check)
		if all {
			assert.Len(t, failure.Plan.Faults, 1)
			assert.Equal(t, chaos.PauseProcess, failure.Plan.Faults[0].Kind)
		}
	})
}

// In a service with both, a cache equals the tree, and an election has one leader; and a custom fault is played.
func TestCachesAndElections(t *testing.T) {
	cfg := chaos.Config{Count: few(t, 60), Custom: map[chaos.Kind]func(*chaos.World, chaos.Fault) func(){
		"foreign write": func(w *chaos.World, f chaos.Fault) func() {
			_ = w.Ensemble().Member(0).Set("/config", []byte(f.At.String()))
			return nil
		},
	}, Faults: append(chaos.Usual(), "foreign write", "foreign write")}
	chaos.Test(t, func(w *chaos.World) {
		require.NoError(w, w.Ensemble().Member(0).Create("/config", []byte("a")))
		right, terms := w.Exclusive("leader"), w.Progress("terms")
		for range 3 {
			var mu sync.Mutex
			var copied map[string][]byte
			w.Start("service", func(p *chaos.Process) {
				client := connect(w, p)
				defer client.Close()
				c, err := cache.New(client, "/config")
				require.NoError(w, err)
				defer c.Close()
				sel := leader.NewSelector(client, "/leader", func(ctx context.Context) error {
					g := right.GrantedWith(p, leader.TermOf(ctx).FencingToken(), ctx)
					defer g.Done()
					for n := 0; n < 3 && pause(ctx, time.Second); n++ {
						g.Use("lead")
						terms.Made(p)
					}
					return nil
				})
				var elects sync.WaitGroup
				elects.Go(func() { _ = sel.Run(p.Context()) })
				defer elects.Wait()
				for pause(p.Context(), 50*time.Millisecond) {
					now := map[string][]byte{}
					for path, n := range c.All() {
						now[path] = n.Data
					}
					mu.Lock()
					copied = now
					mu.Unlock()
				}
			})
			w.Eventually("cache", func() error {
				mu.Lock()
				defer mu.Unlock()
				return w.SameAsTree("/config", copied)
			})
		}
	}, cfg)
}

// The world gives the scenario the data that it needs, and the processes have their own clocks and random sources.
func TestWhatAWorldTells(t *testing.T) {
	chaos.Test(t, func(w *chaos.World) {
		plan := w.Plan()
		assert.Equal(w, plan.SessionTimeout, w.SessionTimeout())
		assert.Len(w, w.Servers(), plan.Members)
		assert.Equal(w, strings.Join(w.Servers(), ","), w.ConnectString())
		assert.Equal(w, fmt.Sprintf("seed %d", plan.Seed), strings.SplitN(plan.String(), ":", 2)[0])
		w.Logf("begins")
		w.Start("p", func(p *chaos.Process) {
			assert.Equal(w, "p-0", p.Name())
			p.Logf("%d", p.Rand().IntN(100))
			step := time.Until(p.Now())
			assert.Contains(w, []time.Duration{0, step.Round(time.Second)}, step)
			<-p.Context().Done()
			assert.Contains(w, []error{chaos.ErrKilled, chaos.ErrStopped}, context.Cause(p.Context()))
			if context.Cause(p.Context()) == chaos.ErrKilled {
				_, err := p.Dial(context.Background(), "tcp", w.Servers()[0])
				assert.ErrorIs(w, err, chaos.ErrKilled)
			}
		})
		w.Start("waits", func(p *chaos.Process) {
			select {
			case <-w.Calm():
			case <-p.Context().Done():
			}
		})
	}, chaos.Config{Count: few(t, 60)})
}

// Faults by a script, without a plan's faults: for each replica in turn.
func TestAScript(t *testing.T) {
	chaos.Test(t, func(w *chaos.World) {
		right, made := w.Exclusive("job"), w.ProgressOfEach("jobs")
		lives := map[string]int{}
		var mu sync.Mutex
		var replicas []*chaos.Replica
		for range 2 {
			replicas = append(replicas, w.Start("worker", func(p *chaos.Process) {
				mu.Lock()
				lives[p.Name()]++
				mu.Unlock()
				client := connect(w, p)
				defer client.Close()
				m := mutex.New(client, "/job", mutex.WithLossPolicy(framework.SessionOnly))
				for p.Context().Err() == nil {
					lock, err := m.Acquire(p.Context())
					if err != nil {
						pause(p.Context(), time.Second)
						continue
					}
					held := right.Granted(p, lock.Context())
					if looksAfterTheWait(lock) {
						held.Use("a step")
						made.Made(p)
					}
					held.Done()
					release(p, lock)
				}
			}))
		}
		w.Script(func() {
			for _, r := range replicas {
				time.Sleep(2 * time.Second)
				r.Cut()
				r.Slow(time.Second)
				time.Sleep(5 * time.Second)
				r.Slow(0)
				open := r.Block(zktest.FromClient)
				time.Sleep(time.Minute)
				open()
				resume := r.Pause()
				time.Sleep(time.Minute)
				resume()
				start := r.Kill()
				r.Kill() // it is killed already
				time.Sleep(time.Second)
				start()
				time.Sleep(5 * time.Second)
				start = r.Stop()
				time.Sleep(5 * time.Second)
				start()
			}
		})
		w.Finally("lives", func() error {
			if fmt.Sprint(lives) != "map[worker-0:3 worker-1:3]" {
				return fmt.Errorf("%v", lives)
			}
			return nil
		})
	}, chaos.Config{Every: 1000 * time.Hour, Count: 5})
}
