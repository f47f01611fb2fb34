package leader_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// observed is an observer on its own goroutine.
type observed struct {
	all  chan leader.Observation
	errs chan error
	stop func()
}

func observe(t *testing.T, c *framework.Client, path string) *observed {
	ctx, cancel := context.WithCancel(background)
	o := &observed{make(chan leader.Observation, 1000), make(chan error, 1000), nil}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for who, err := range leader.Observe(ctx, c, path) {
			if err != nil {
				o.errs <- err
				continue
			}
			o.all <- who
		}
	}()
	o.stop = func() { cancel(); <-done }
	t.Cleanup(o.stop)
	return o
}

// next asserts what is reported next.
func (o *observed) next(t *testing.T, who string) leader.Observation {
	t.Helper()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	select {
	case got := <-o.all:
		require.True(t, strings.HasPrefix(got.String(), who), "%v, want %s", got, who)
		return got
	case <-timer.C:
		require.Fail(t, "nothing is reported", "want %s", who)
	}
	return leader.Observation{}
}

func (o *observed) quiet(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, o.all)
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ReapInterval: time.Second})
		ca, cb, co := newClient(t, s), newClient(t, s), newClient(t, s)
		seen := observe(t, co, path)
		require.Equal(t, leader.Observation{Nobody: true}, seen.next(t, "nobody"))
		a := join(t, ca, leader.WithID("a"))
		got := seen.next(t, `"a"`)
		term := await(t, a)
		require.Equal(t, leader.Participant{ID: "a", Leader: true, Name: term.Node(), Path: term.Path(),
			Czxid:     term.FencingToken(),
			SessionID: session(t, ca), Since: got.Leader.Since}, got.Leader)
		b := join(t, cb, leader.WithID("b"))
		seen.quiet(t)
		require.NoError(t, s.Set(term.Path(), []byte("A"))) // as to revoke a lock does
		seen.next(t, `"A"`)
		left(t, a)
		seen.next(t, `"b"`)
		left(t, b)
		seen.next(t, "nobody")
		time.Sleep(time.Minute) // the server deletes the empty container
		require.False(t, s.Exists(path))
		seen.quiet(t)
		a = join(t, ca, leader.WithID("a"))
		seen.next(t, `"a"`)

		// A reconnect, and even a new session of the observer, is not reported.
		s.Cut(session(t, co))
		time.Sleep(5 * time.Second)
		seen.quiet(t)
		s.Expire(session(t, co))
		time.Sleep(5 * time.Second)
		seen.quiet(t)
		left(t, a)
		seen.next(t, "nobody")
		require.Empty(t, seen.errs)

		seen.stop()
		require.ErrorIs(t, <-seen.errs, context.Canceled)
		seen = observe(t, co, path)
		seen.next(t, "nobody")
		require.NoError(t, co.Close())
		require.ErrorIs(t, <-seen.errs, framework.ErrClosed)
	})
}

// Both layouts, also with nodes of another client; and a change while the observer is disconnected.
func TestObserveBothLayouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		other := newClient(t, s)
		const uuid = "d93c3b7d-b92f-47f8-97dd-71e653f1e8cf"
		for _, name := range []string{"latch-", "lock-"} {
			dir := "/" + name + "election"
			require.NoError(t, s.Create(dir+"/notes", nil))
			first, err := s.CreateNode(dir+"/_c_"+uuid+"-"+name+"0000000007", []byte("java-1"), zktest.Ephemeral,
				session(t, other))
			require.NoError(t, err)
			_, err = s.CreateNode(dir+"/_c_00000000-b92f-47f8-97dd-71e653f1e8cf-"+name+"0000000008", []byte("java-2"),
				zktest.Ephemeral, session(t, other))
			require.NoError(t, err)
			seen := observe(t, c, dir)
			seen.next(t, `"java-1"`)
			s.Cut(session(t, c))
			require.NoError(t, s.Delete(first))
			seen.next(t, `"java-2"`)
			seen.stop()
		}

		latch := join(t, c, leader.WithID("latch"))
		for who, err := range latch.Observe(background) {
			require.NoError(t, err)
			require.Equal(t, "latch", who.Leader.ID)
			break
		}
		require.NoError(t, latch.Close())
		sel := leader.NewSelector(c, path, func(context.Context) error { return nil }, leader.WithID("selector"))
		for who, err := range sel.Observe(background) {
			require.NoError(t, err)
			require.True(t, who.Nobody)
			break
		}
		clean(t, s)
	})
}

// A slow loop gets fewer changes, in order, and always the latest.
func TestSlowObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		var got []leader.Observation
		done := make(chan struct{})
		go func() {
			defer close(done)
			for who, err := range leader.Observe(ctx, c, path) {
				if err != nil {
					return
				}
				got = append(got, who)
				time.Sleep(5 * time.Second)
			}
		}()
		synctest.Wait()
		client := newClient(t, s)
		for range 20 {
			l := join(t, client, leader.WithID("early"))
			time.Sleep(time.Second)
			require.NoError(t, l.Close())
		}
		last := join(t, client, leader.WithID("last"))
		time.Sleep(time.Minute)
		cancel()
		<-done
		require.Less(t, len(got), 10)
		require.True(t, got[0].Nobody)
		require.Equal(t, "last", got[len(got)-1].Leader.ID)
		require.NoError(t, last.Close())
	})
}

// Without READ on the leader's node the observer reports a leader without its ID. Without READ on the directory it reports the
// error, until it may read again.
func TestObserveWithoutRights(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V37, zktest.V38} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{Profile: profile})
			require.NoError(t, s.Create(path, nil))
			private := newClient(t, s, framework.WithAuth("digest", []byte("a:a")),
				framework.WithDefaultACL(framework.CreatorACL()...))
			a := join(t, private, leader.WithID("a"))
			b := join(t, private, leader.WithID("b"))
			var log recipetest.Log
			seen := observe(t, newClient(t, s, framework.WithLogger(log.Logger())), path)
			require.Equal(t, await(t, a).Node(), seen.next(t, `""`).Leader.Name)
			left(t, a)
			require.Equal(t, await(t, b).Node(), seen.next(t, `""`).Leader.Name)
			require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31, Scheme: "digest", ID: "x:y"}))
			require.NoError(t, s.DeleteAll(b.Path()+"/"+await(t, b).Node()))
			require.ErrorIs(t, <-seen.errs, framework.ErrNoAuth)
			require.ErrorIs(t, <-seen.errs, framework.ErrNoAuth)
			require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
			node := await(t, b).Node()
			time.Sleep(20 * time.Second)
			if got := seen.next(t, ""); got.Nobody { // chance decides which of the two tries first
				require.Equal(t, node, seen.next(t, `""`).Leader.Name)
			} else {
				require.Equal(t, node, got.Leader.Name)
			}
			seen.quiet(t)
			require.NotContains(t, log.String(), "is not ephemeral", "its session is not known")
		})
	}
}

// The pauses of an observer grow while it may not read. After a successful read, the next refusals start with short pauses again.
func TestObserverTriesAgainSoonAfterALaterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		seen := observe(t, newClient(t, s), path)
		seen.next(t, "nobody")
		for _, id := range []string{"a", "b"} {
			require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}))
			require.NoError(t, s.Create(path+"/latch-0000000001", []byte(id)))
			require.ErrorIs(t, <-seen.errs, framework.ErrNoAuth)
			began := time.Now()
			for range 4 {
				require.ErrorIs(t, <-seen.errs, framework.ErrNoAuth)
			}
			require.LessOrEqual(t, time.Since(began), 1500*time.Millisecond, "0.1 + 0.2 + 0.4 + 0.8 s")
			time.Sleep(time.Minute)
			require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
			seen.next(t, `"`+id+`"`)
			for len(seen.errs) > 0 {
				<-seen.errs
			}
			require.NoError(t, s.Delete(path+"/latch-0000000001"))
			seen.next(t, "nobody")
		}
	})
}

// Under any faults an observer's reports are in order: tokens grow, successive reports differ, and the last report is the current
// leader.
func TestObserveOrder(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			random := rand.New(rand.NewPCG(seed, 0))
			co, clients := newClient(t, s), []*framework.Client{newClient(t, s), newClient(t, s), newClient(t, s)}
			var mu sync.Mutex
			var got []leader.Observation
			ctx, cancel := context.WithCancel(background)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for who, err := range leader.Observe(ctx, co, path) {
					if err != nil {
						return
					}
					mu.Lock()
					got = append(got, who)
					mu.Unlock()
				}
			}()
			latches := map[int]*leader.Latch{}
			for range 60 {
				i := random.IntN(3)
				switch l := latches[i]; {
				case random.IntN(5) == 0:
					s.Cut(session(t, co))
				case random.IntN(12) == 0:
					s.Expire(session(t, co))
				case l == nil:
					l, err := leader.NewLatch(clients[i], path)
					require.NoError(t, err)
					latches[i] = l
				default:
					require.NoError(t, l.Close())
					delete(latches, i)
				}
				time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
			}
			time.Sleep(30 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			require.Greater(t, len(got), 5, "seed %d", seed)
			last := int64(0)
			for i, who := range got {
				if i > 0 && who.Nobody {
					require.False(t, got[i-1].Nobody, "seed %d", seed)
				}
				if !who.Nobody {
					require.Greater(t, who.Leader.Czxid, last, "seed %d", seed)
					last = who.Leader.Czxid
				}
			}
			final := got[len(got)-1]
			require.Equal(t, len(latches) == 0, final.Nobody, "seed %d", seed)
			for _, l := range latches {
				if l.HasLeadership() {
					require.Equal(t, await(t, l).Node(), final.Leader.Name, "seed %d", seed)
				}
			}
			for _, l := range latches {
				require.NoError(t, l.Close())
			}
			mu.Unlock()
			cancel()
			<-done
			mu.Lock()
		})
	}
}

// The leader's ID is packed or not, depending on its client: the observer reports it in either case.
func TestObservePackedAndPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		packs, plain := newClient(t, s, framework.WithCompression()), newClient(t, s)
		o := observe(t, packs, path)
		o.next(t, "nobody")
		a := join(t, plain, leader.WithID("plain"))
		o.next(t, `"plain"`)
		b := join(t, packs, leader.WithID("packed"))
		list, err := b.Participants(background)
		require.Equal(t, []string{"plain", "packed"}, ids(t, list, err))
		left(t, a)
		o.next(t, `"packed"`)
		require.Empty(t, o.errs)
		left(t, b)
		o.stop()
		clean(t, s)
	})
}

// A node of no session leads until it is deleted, also for Java. That is logged once.
func TestObserveNodeOfNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		require.NoError(t, s.Create(path+"/latch-0000000000", []byte("ghost")))
		seen := observe(t, newClient(t, s, framework.WithLogger(log.Logger())), path)
		require.Zero(t, seen.next(t, `"ghost"`).Leader.SessionID)
		a := join(t, newClient(t, s), leader.WithID("a"))
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), "is not ephemeral"), log.String())
		require.NoError(t, s.Delete(path+"/latch-0000000000"))
		seen.next(t, `"a"`)
		left(t, a)
		seen.next(t, "nobody")
		require.Equal(t, 1, strings.Count(log.String(), "is not ephemeral"))
	})
}

// While nothing changes, an observer sends one read each 30 s. The servers send no events of a node that the observer may not
// read; the next of these reads finds the change.
func TestObserverLooksForLostEvents(t *testing.T) {
	const node = path + "/latch-0000000001"
	all := zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}
	private := zktest.ACL{Perms: 30, Scheme: "world", ID: "anyone"}
	for name, election := range map[string]struct {
		led, unreadable bool
		check           zktest.Op
		hidden          string // the node that the observer may not read while the election changes
	}{
		"a leader":             {true, false, zktest.OpExists, node},
		"an unreadable leader": {true, true, zktest.OpGetChildren2, path},
		"no participant":       {false, false, zktest.OpGetChildren2, path},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				co, owner := newClient(t, s), session(t, newClient(t, s))
				begin := func() {
					_, err := s.CreateNode(node, []byte("a"), zktest.Ephemeral, owner)
					require.NoError(t, err)
				}
				require.NoError(t, s.Create(path, nil))
				if election.led {
					begin()
				}
				if election.unreadable {
					require.NoError(t, s.SetACL(node, private))
				}
				began := time.Now()
				seen := observe(t, co, path)
				seen.next(t, "")
				time.Sleep(time.Second)
				s.ResetCounts()
				time.Sleep(time.Hour)
				got := s.CountsOf(session(t, co))
				delete(got, "ping")
				require.Equal(t, map[string]int{string(election.check): 120}, got)
				seen.quiet(t)

				require.NoError(t, s.SetACL(election.hidden, private))
				want := "nobody"
				if election.led {
					require.NoError(t, s.Delete(node))
				} else {
					begin()
					want = `"a"`
				}
				require.NoError(t, s.SetACL(path, all))
				seen.next(t, want)
				require.Equal(t, time.Hour+30*time.Second, time.Since(began))
				require.Empty(t, seen.errs)
			})
		})
	}
}

// The first participant joins between the observer's list, without nodes, and its next read.
func TestObserverIsOvertakenByTheFirstParticipant(t *testing.T) {
	for name, second := range map[string]zktest.Fault{
		"without a directory": {Op: zktest.OpExists},
		"with a directory":    {Op: zktest.OpGetChildren2, After: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				co, c := newClient(t, s), newClient(t, s)
				if second.Op != zktest.OpExists {
					require.NoError(t, s.Create(path, nil))
				}
				second.Session, second.Action = session(t, co), zktest.Hold
				read := s.Inject(second)
				seen := observe(t, co, path)
				<-read.Struck()
				join(t, c, leader.WithID("a"))
				read.Release()
				seen.next(t, `"a"`)
				seen.stop()
				time.Sleep(time.Second)
				require.Len(t, s.Watches(), 1, "the leader's own")
			})
		})
	}
}

// The context ends at the moment of the reply: the watch does not outlive the observer.
func TestObserverStopsWithAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		join(t, newClient(t, s))
		watches := len(s.Watches())
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		co := newClient(t, s, framework.WithHooks(framework.Hooks{
			Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
				return func(end framework.OperationEnd) {
					require.NoError(t, end.Err)
					if op.Name == "getData" {
						cancel()
					}
				}
			},
		}))
		for _, err := range leader.Observe(ctx, co, path) {
			require.ErrorIs(t, err, context.Canceled)
		}
		synctest.Wait()
		require.Len(t, s.Watches(), watches)
	})
}

// The leader's node is deleted, and created again with the same name and ID. An observer that has neither listed in between nor
// got the event still yields the leader again, with its larger token.
func TestALeaderRecreatedWithTheSameNameIsObserved(t *testing.T) {
	const node = path + "/latch-0000000001"
	for name, eventsLost := range map[string]bool{"before the list": false, "without an event": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				co, owner := newClient(t, s), session(t, newClient(t, s))
				create := func() {
					_, err := s.CreateNode(node, []byte("a"), zktest.Ephemeral, owner)
					require.NoError(t, err)
				}
				require.NoError(t, s.Create(path, nil))
				create()
				seen := observe(t, co, path)
				first := seen.next(t, `"a"`)
				if eventsLost { // the servers send no events of a node that the observer may not read
					require.NoError(t, s.SetACL(node, zktest.ACL{Perms: 30, Scheme: "world", ID: "anyone"}))
					require.NoError(t, s.Delete(node))
					create()
					seen.quiet(t)
				} else {
					list := s.Inject(zktest.Fault{Op: zktest.OpGetChildren2, Session: session(t, co), Action: zktest.Hold})
					require.NoError(t, s.Delete(node))
					<-list.Struck()
					create()
					list.Release()
				}
				second := seen.next(t, `"a"`)
				require.Greater(t, second.Leader.Czxid, first.Leader.Czxid)
				require.Equal(t, first.Leader.Name, second.Leader.Name)
				require.Empty(t, seen.errs)
			})
		})
	}
}
