package chaos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// with returns a configuration whose plans have three members and only these faults.
func with(faults ...chaos.Fault) chaos.Config {
	return chaos.Config{Count: 5, Trouble: time.Minute, Shrink: -1, Plan: func(p *chaos.Plan) {
		p.Trouble = time.Minute
		p.Members, p.Faults, p.SessionTimeout = 3, faults, 10*time.Second
		p.Pauses = chaos.Pauses{Election: p.Election}
	}}
}

// holders starts two processes that hold a lock in turn, and returns their right and the sessions that they had.
func holders(w *chaos.World) (right *chaos.Right, sessions func() []int64) {
	right = w.Exclusive("job")
	made := w.Progress("jobs")
	seen := make(chan int64, 100)
	for range 2 {
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
				if s, err := client.Session(p.Context()); err == nil {
					seen <- s.ID()
				}
				for n := 0; n < 5 && pause(lock.Context(), time.Second); n++ {
					held.Use("a step")
					made.Made(p)
				}
				held.Done()
				release(p, lock)
			}
		})
	}
	return right, func() (ids []int64) {
		for len(seen) > 0 {
			if id := <-seen; !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return ids
	}
}

func noted(w *chaos.World, text string) error {
	if !slices.ContainsFunc(
		w.Ensemble().Trace(),
		func(line string) bool { return strings.Contains(line, text) },
	) {
		return fmt.Errorf("no member has seen %q", text)
	}
	return nil
}

// Each kind has its effect, seen from outside, on a service that survives it.
func TestKindsOfFaults(t *testing.T) {
	at, lasts := 20*time.Second, 20*time.Second
	for kind, c := range map[chaos.Kind]struct {
		fault chaos.Fault
		check func(w *chaos.World, sessions []int64) error
	}{
		chaos.Stall: {chaos.Fault{Dir: zktest.FromClient}, func(w *chaos.World, sessions []int64) error {
			if len(sessions) != 2 {
				return fmt.Errorf("another connection keeps the session: %x", sessions)
			}
			return noted(w, "black hole")
		}},
		chaos.Ghosts: {chaos.Fault{Dir: zktest.Both, Delay: time.Second}, func(w *chaos.World, sessions []int64) error {
			if len(sessions) != 3 {
				return fmt.Errorf("a session is lost, as no server can be reached: %x", sessions)
			}
			return noted(w, "black hole")
		}},
		chaos.WipeMember: {chaos.Fault{Member: 1}, func(w *chaos.World, _ []int64) error { return noted(w, "data wiped") }},
		chaos.ReplaceMember: {chaos.Fault{Member: 1}, func(w *chaos.World, _ []int64) error {
			_, stat, err := w.Ensemble().Member(0).Get("/zookeeper/config")
			if stat.Version < 2 {
				return fmt.Errorf("the configuration has version %d: %w", stat.Version, err)
			}
			return noted(w, "server stops")
		}},
		chaos.DeafLeader: {chaos.Fault{Member: 1}, func(w *chaos.World, _ []int64) error { return noted(w, "cut: nothing of member") }},
		chaos.Grow: {chaos.Fault{All: true}, func(w *chaos.World, _ []int64) error {
			data, _, err := w.Ensemble().Member(0).Get("/zookeeper/config")
			if strings.Count(string(data), "server.") != 3 {
				return fmt.Errorf("the configuration is %q: %w", data, err)
			}
			return noted(w, "connection cut")
		}},
		chaos.Shrink: {chaos.Fault{All: true}, func(w *chaos.World, _ []int64) error {
			return noted(w, "sessions limited to 5s")
		}},
	} {
		t.Run(strings.ReplaceAll(string(kind), " ", "-"), func(t *testing.T) {
			f := c.fault
			f.Kind, f.At, f.Lasts = kind, at, lasts
			chaos.Test(t, func(w *chaos.World) {
				_, sessions := holders(w)
				w.Finally("effect", func() error { return c.check(w, sessions()) })
			}, with(f))
		})
	}
}

// When a fault does not limit session timeouts any more, the limit of the scenario's servers applies again.
func TestSessionsAreLimitedAgain(t *testing.T) {
	cfg := with(chaos.Fault{Kind: chaos.Shrink, At: 20 * time.Second, Lasts: 20 * time.Second})
	cfg.Server = func(_ *chaos.Plan, c *zktest.Config) { c.MaxSessionTimeout = 11 * time.Second }
	chaos.Test(t, func(w *chaos.World) {
		w.Start("p", func(p *chaos.Process) { <-p.Context().Done() })
		w.Finally("limit", func() error { return noted(w, "sessions limited to 11s") })
	}, cfg)
}

// The world records that a process lost its node or session by force, and the process may not know it for a while.
func TestWhatIsTakenAway(t *testing.T) {
	for kind, c := range map[chaos.Kind]struct {
		fault     chaos.Fault
		sure, own bool
	}{
		chaos.Expire:     {chaos.Fault{}, true, true},
		chaos.DeleteNode: {chaos.Fault{All: true}, true, false},
		chaos.SkewServer: {chaos.Fault{Delay: time.Minute}, false, true},
	} {
		t.Run(strings.ReplaceAll(string(kind), " ", "-"), func(t *testing.T) {
			f := c.fault
			f.Kind, f.At = kind, 20*time.Second
			chaos.Test(t, func(w *chaos.World) {
				var session int64
				var node string
				w.Start("worker", func(p *chaos.Process) {
					client := connect(w, p)
					defer client.Close()
					s, err := client.Session(p.Context())
					require.NoError(w, err)
					session = s.ID()
					node, err = client.Create().
						WithMode(framework.EphemeralSequential).
						ForPath(p.Context(), "/node-", nil)
					require.NoError(w, err)
					if _, removed := w.Removed(session, node); removed || w.MayHaveEnded(session) {
						w.Violate("removed", "before the fault")
					}
					time.Sleep(25 * time.Second)
					r, removed := w.Removed(session, node)
					if !removed || r.At != f.At || r.Sure != c.sure || !r.Head ||
						w.MayHaveEnded(session) != c.own {
						w.Violate("removed", "%t: %+v", removed, r)
					}
					<-w.Calm() // it is recorded once more when all faults have ended
					time.Sleep(2 * w.Notice())
					if _, still := w.Removed(session, node); still != c.sure {
						w.Violate("removed", "a clock's jump ends sessions soon, or not at all: %t", still)
					}
					<-p.Context().Done()
				})
			}, with(f))
		})
	}
}

// A node that was deleted behind another never had the right.
func TestANodeThatIsDeletedInTheLine(t *testing.T) {
	chaos.Test(t, func(w *chaos.World) {
		w.Start("worker", func(p *chaos.Process) {
			client := connect(w, p)
			defer client.Close()
			var nodes []string
			for range 3 {
				node, err := client.Create().
					WithMode(framework.EphemeralSequential).
					ForPath(p.Context(), "/node-", nil)
				require.NoError(w, err)
				nodes = append(nodes, node)
			}
			time.Sleep(25 * time.Second)
			_, first := w.Removed(0, nodes[0])
			r, second := w.Removed(0, nodes[1])
			_, third := w.Removed(0, nodes[2])
			if first || !second || r.Head || third {
				w.Violate("removed", "%t, %t (%+v), %t", first, second, r, third)
			}
			<-p.Context().Done()
		})
	}, with(chaos.Fault{Kind: chaos.DeleteNode, Times: 1, At: 20 * time.Second}))
}

// DeleteNode counts from the end if Times is negative, and begins again at the other end as often as necessary.
func TestWhichNodesAreDeleted(t *testing.T) {
	for _, c := range []struct {
		times, after int
		want         []bool
		text         string
	}{
		{1, 0, []bool{false, true, false}, "1 of them, up to no. 2"},
		{4, 1, []bool{true, true, false}, "2 of them, up to no. 5"},
		{-1, 0, []bool{false, false, true}, "1 of them, up to no. 1 from the end"},
		{-1, 1, []bool{false, true, true}, "2 of them, up to no. 1 from the end"},
		{-3, 2, []bool{true, false, false}, "3 of them, up to no. 3 from the end"},
		{-4, 0, []bool{false, false, true}, "1 of them, up to no. 4 from the end"},
	} {
		f := chaos.Fault{Kind: chaos.DeleteNode, Times: c.times, After: c.after, At: 20 * time.Second}
		t.Run(fmt.Sprintf("%d,%d", c.times, c.after), func(t *testing.T) {
			assert.Contains(t, f.String(), c.text)
			cfg := with(f)
			cfg.Count = 1
			chaos.Test(t, func(w *chaos.World) {
				process(w, "p", func(p *chaos.Process) {
					client := connect(w, p)
					defer client.Close()
					nodes := createNodes(w, p, client, len(c.want))
					time.Sleep(21 * time.Second)
					for i, node := range nodes {
						if _, removed := w.Removed(0, node); removed != c.want[i] {
							w.Violate("removed", "node %d: %t", i, removed)
						}
					}
				})
			}, cfg)
		})
	}
}

// The scenario's own part of a plan is drawn once, and every process that plays the plan has it; the figures are
// returned, and the processes are still running during the checks at rest.
func TestAScenariosOwnPlan(t *testing.T) {
	type own struct{ Workers int }
	scenario := func(mistake bool) func(*chaos.World) {
		return func(w *chaos.World) {
			var o own
			require.NoError(w, json.Unmarshal(w.Plan().Own, &o))
			assert.Equal(w, 1+int(w.Plan().Seed)%3, o.Workers)
			var running atomic.Int64
			for range o.Workers {
				w.Start("worker", func(p *chaos.Process) {
					running.Add(1)
					w.Count("workers", 1)
					<-p.Context().Done()
					running.Add(-1)
				})
			}
			w.AtRest("at work", func() error {
				time.Sleep(time.Second)
				if int(running.Load()) != o.Workers || mistake {
					return fmt.Errorf("%d run", running.Load())
				}
				return nil
			})
		}
	}
	cfg := chaos.Config{Count: 6, Every: 1000 * time.Hour, Shrink: -1, Plan: func(p *chaos.Plan) {
		data, err := json.Marshal(own{1 + int(p.Seed)%3})
		require.NoError(t, err)
		p.Own = data
	}}
	t.Run("right", func(t *testing.T) { chaos.Test(t, scenario(false), cfg) })
	t.Run("wrong", func(t *testing.T) {
		failure := chaos.Find(t, scenario(true), cfg)
		require.NotNil(t, failure)
		assert.Equal(t, "at work", failure.Violation.Check)
		assert.Contains(t, failure.Report, `{"Workers":2}`)
		assert.Positive(t, failure.Runs)
		assert.Equal(t, 10, failure.Replayed)
	})
}

// An operation that is recorded as unknown never returns.
func TestAnUnknownOutcome(t *testing.T) {
	chaos.Test(t, func(w *chaos.World) {
		h := w.History("ops", func(ops []chaos.Op) error {
			if len(ops) != 1 || ops[0].Returned != chaos.Never || ops[0].Called != time.Second ||
				ops[0].Input != 7 {
				return errors.New(fmt.Sprint(ops))
			}
			return nil
		})
		w.Start("p", func(p *chaos.Process) {
			time.Sleep(2 * time.Second)
			h.Unknown(p, time.Second, 7)
			<-p.Context().Done()
		})
	}, chaos.Config{Count: 1, Every: 1000 * time.Hour})
}

// The time for which a server was paused does not count as running.
func TestHowLongAServerRan(t *testing.T) {
	chaos.Test(t, func(w *chaos.World) {
		w.Finally("ran", func() error {
			if ran := w.Ran(1, 10*time.Second, 50*time.Second); ran != 20*time.Second {
				return fmt.Errorf("%v", ran)
			}
			if ran := w.Ran(0, 10*time.Second, 50*time.Second); ran != 40*time.Second {
				return fmt.Errorf("member 0: %v", ran)
			}
			return nil
		})
		w.Start("p", func(p *chaos.Process) { <-p.Context().Done() })
	}, with(chaos.Fault{Kind: chaos.PauseMember, Member: 1, At: 20 * time.Second, Lasts: 20 * time.Second}))
}
