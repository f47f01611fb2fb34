package zktest

import (
	"context"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// bubble runs a story on an ensemble in virtual time.
func bubble(t *testing.T, size int, cfg Config, story func(t *testing.T, e *Ensemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { story(t, RunEnsembleT(t, size, cfg)) })
}

func settle(t testing.TB, e *Ensemble) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	require.NoError(t, e.AwaitSettled(ctx))
}

// roles returns the leader and the followers.
func roles(e *Ensemble) (leader *Server, followers []*Server) {
	for i, s := range e.Members() {
		if i == e.Leader() {
			leader = s
		} else {
			followers = append(followers, s)
		}
	}
	return leader, followers
}

func word(t testing.TB, s *Server, word string) string {
	t.Helper()
	nc, err := s.Dial(context.Background(), "tcp", s.Addr())
	require.NoError(t, err)
	_, err = nc.Write([]byte(word))
	require.NoError(t, err)
	text, err := io.ReadAll(nc)
	require.NoError(t, err)
	return string(text)
}

func TestEnsembleOfEachSizeServesEverybodyEverywhere(t *testing.T) {
	for _, size := range []int{1, 3, 5} {
		bubble(t, size, Config{}, func(t *testing.T, e *Ensemble) {
			require.Equal(t, size-1, e.Leader())
			for i, s := range e.Members() {
				c := newRaw(t, s, 10*time.Second)
				path := c.create("/n-", jute.ModeEphemeralSequential)
				assert.Equal(t, ok, c.code(jute.OpSetData, put(path, "x")))
				assert.Len(t, e.Member(0).Tree(), i+2)
				assert.Equal(t, int64(i+1), c.hello.SessionID>>56, "the server's id")
			}
			require.NoError(t, e.Member(0).Create("/by/hand", nil))
			for _, s := range e.Members() {
				assert.Equal(t, e.Member(0).Tree(), s.Tree())
				assert.Len(t, s.Sessions(), size)
			}
			assert.Equal(t, int64(1), e.Member(0).Zxid()>>32, "the epoch")
		})
	}
	_, err := NewEnsemble(0, Config{})
	require.Error(t, err)
	_, err = NewEnsemble(3, Config{Lag: -1})
	require.Error(t, err)
}

func TestMemberServesStaleReadsUntilSync(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		e.SetLag(0, time.Second)
		writer, reader := newRaw(t, leader, 10*time.Second), newRaw(t, followers[0], 10*time.Second)
		start := time.Now()
		writer.create("/a", 0)
		assert.Zero(t, time.Since(start), "a majority is enough")
		assert.Equal(t, ErrNoNode, reader.code(jute.OpExists, watch("/a")))
		assert.Equal(t, ok, reader.code(jute.OpSync, &jute.PathRequest{Path: "/"}))
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, ok, reader.code(jute.OpExists, at("/a")))
		assert.Equal(t, []string{"NodeCreated /a"}, reader.heard(), "the event stood before sync's answer")

		// The member serves the client's own writes immediately; the requests after them on the connection wait.
		start = time.Now()
		reader.send(jute.OpCreate, mk("/b", 0))
		reader.send(jute.OpCreate, mk("/c", 0))
		reader.send(jute.OpGetData, at("/b"))
		reader.send(jute.OpPing)
		for want := reader.xid - 3; want < reader.xid; want++ {
			r, err := reader.recv()
			require.NoError(t, err)
			assert.Equal(t, want, r.Xid)
			assert.Equal(t, ok, Error(r.Err))
		}
		r, err := reader.recv()
		require.NoError(t, err)
		assert.Equal(t, jute.XidPing, r.Xid)
		assert.Equal(t, time.Second, time.Since(start), "pipelined writes do not add up")
	})
}

func TestMemberRefusesAClientAheadOfIt(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		e.SetLag(0, 5*time.Second)
		c := newRaw(t, leader, 10*time.Second)
		c.create("/a", 0)
		n := dialRaw(t, followers[0])
		req := c.resume(10000)
		req.LastZxidSeen = leader.Zxid()
		require.Error(t, n.shake(req))
		require.NoError(t, dialRaw(t, followers[1]).shake(req))
		time.Sleep(5*time.Second + time.Millisecond)
		require.NoError(t, dialRaw(t, followers[0]).shake(req))
	})
}

func TestSessionMovesAndTheOldConnectionCannotWrite(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		_, followers := roles(e)
		old := newRaw(t, followers[0], 10*time.Second)
		old.create("/e", jute.ModeEphemeral)
		now := old.again(followers[1])
		assert.Equal(t, old.hello.SessionID, now.hello.SessionID)
		assert.Equal(t, ok, old.code(jute.OpGetData, at("/e")), "reads are the member's own affair")
		assert.Equal(t, ok, now.code(jute.OpSetData, put("/e", "new")))
		old.send(jute.OpSetData, put("/e", "old"))
		old.closed()
		data, _, err := followers[0].Get("/e")
		require.NoError(t, err)
		assert.Equal(t, "new", string(data))
		assert.Equal(t, ok, now.code(jute.OpPing))
	})
}

func TestTouchesReachTheLeaderEveryHalfTick(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		c := newRaw(t, followers[0], 10*time.Second)
		time.Sleep(2300 * time.Millisecond)
		before := leader.Sessions()[0].Expires
		c.call(jute.OpPing)
		assert.Equal(t, before, leader.Sessions()[0].Expires, "the member answers by itself")
		time.Sleep(time.Second)
		assert.Greater(t, leader.Sessions()[0].Expires+time.Second, before)
		for range 100 {
			c.call(jute.OpPing)
			time.Sleep(3 * time.Second)
		}
		assert.Len(t, leader.Sessions(), 1)
	})
}

// A session that re-attaches at a follower is touched by the leader, immediately, and the follower reports no touch. A
// new session is touched by the leader, and reported by each follower.
func TestWhatAHandshakeTouches(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		ends := func() time.Duration { return leader.Sessions()[0].Expires + time.Since(leader.started) }
		time.Sleep(1300 * time.Millisecond)
		c := newRaw(t, followers[0], 20*time.Second)
		assert.Equal(t, 22*time.Second, ends())
		time.Sleep(1100 * time.Millisecond) // the leader pings, every second from now
		assert.Equal(t, 24*time.Second, ends())
		time.Sleep(5400 * time.Millisecond) // 7.8 s
		n := c.again(followers[1])
		assert.Equal(t, 28*time.Second, ends())
		time.Sleep(2 * time.Second)
		assert.Equal(t, 28*time.Second, ends(), "not reported again")
		n.call(jute.OpPing)
		time.Sleep(time.Second)
		assert.Equal(t, 32*time.Second, ends())
	})
}

func TestExpiryDeletesEverywhere(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		e.SetLag(1, 2*time.Second)
		c, watcher := newRaw(t, followers[0], 4*time.Second), newRaw(t, followers[1], 40*time.Second)
		c.create("/e", jute.ModeEphemeral)
		time.Sleep(2*time.Second + time.Millisecond)
		assert.Equal(t, ok, watcher.code(jute.OpGetData, watch("/e")))
		c.closed()
		assert.False(t, leader.Exists("/e"))
		assert.False(t, followers[0].Exists("/e"))
		assert.True(t, followers[1].Exists("/e"), "it lags")
		time.Sleep(2*time.Second + time.Millisecond)
		assert.Equal(t, []string{"NodeDeleted /e"}, watcher.heard())
		for _, s := range e.Members() {
			assert.Len(t, s.Sessions(), 1)
			assert.False(t, s.Exists("/e"))
		}
		// Also immediately, at any member.
		e.Expire(watcher.hello.SessionID)
		time.Sleep(2 * time.Second)
		watcher.closed()
		assert.Empty(t, leader.Sessions())
	})
}

// Each member sends the same events in the same order.
func TestWatchEventsComeInOneOrder(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		e.SetLag(0, 100*time.Millisecond)
		e.SetLag(1, 300*time.Millisecond)
		var watchers []*raw
		for _, s := range e.Members() {
			c := newRaw(t, s, 40*time.Second)
			c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/", Value: jute.WatchPersistentRecursive})
			watchers = append(watchers, c)
		}
		for _, s := range e.Members() {
			c := newRaw(t, s, 40*time.Second)
			c.create("/by-"+string(rune('a'+s.member.index)), 0)
			c.create("/s-", jute.ModePersistentSequential)
			c.call(jute.OpSetData, put("/s-"+seq(t, s), "x"))
		}
		time.Sleep(time.Second)
		want := watchers[0].heard()
		assert.NotEmpty(t, want)
		for _, w := range watchers[1:] {
			assert.Equal(t, want, w.heard())
		}
	})
}

// seq returns the highest sequence number below the root.
func seq(t *testing.T, s *Server) string {
	kids, err := s.Children("/")
	require.NoError(t, err)
	last := ""
	for _, kid := range kids {
		if n, found := strings.CutPrefix(kid, "s-"); found {
			last = n
		}
	}
	return last
}

func TestSessionSurvivesALeaderChange(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		onLeader, onFollower := newRaw(t, leader, 10*time.Second), newRaw(t, followers[0], 10*time.Second)
		onLeader.create("/l", jute.ModeEphemeral)
		onFollower.create("/f", jute.ModeEphemeral)
		time.Sleep(7 * time.Second)
		start := time.Now()
		leader.Stop()
		onLeader.closed()
		onFollower.closed()
		n := dialRaw(t, followers[0])
		require.Error(t, n.shake(&jute.ConnectRequest{Timeout: 10000}), "nobody is served without a leader")
		assert.ErrorIs(t, followers[0].Set("/f", nil), ErrConnectionLoss)
		settle(t, e)
		assert.InDelta(t, 0.4, time.Since(start).Seconds(), 0.1)
		assert.Equal(t, int64(2), followers[0].Zxid()>>32, "a new epoch")
		for _, s := range followers {
			first := e.Member(e.Leader()).Sessions()[0]
			assert.GreaterOrEqual(t, first.Expires, 9*time.Second, "a full timeout")
			assert.True(t, s.Exists("/l"))
		}
		onLeader, onFollower = onLeader.again(followers[0]), onFollower.again(followers[1])
		assert.NotZero(t, onLeader.hello.SessionID)
		assert.NotZero(t, onFollower.hello.SessionID)
		onLeader.create("/after", 0)
		require.NoError(t, leader.Start())
		settle(t, e)
		assert.NotEqual(t, leader, e.Member(e.Leader()))
		assert.Equal(t, followers[0].Tree(), leader.Tree())
	})
}

// A write that is in flight when the leader stops is committed or lost, and the client cannot know which.
func TestWriteInFlightWhenTheLeaderDies(t *testing.T) {
	for name, committed := range map[string]bool{"its followers have it": true, "nobody else has it": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
				leader, followers := roles(e)
				l := leader.member.index
				c := newRaw(t, leader, 10*time.Second)
				before := newRaw(t, followers[0], 10*time.Second)
				for f := range e.Size() {
					switch {
					case f == l:
					case committed:
						e.CutLink(f, l)
					default:
						e.CutLink(l, f)
					}
				}
				c.send(jute.OpCreate, mk("/a", 0))
				c.silent(time.Second)
				assert.Equal(t, ErrNoNode, before.code(jute.OpExists, at("/a")))
				leader.Stop()
				c.closed()
				time.Sleep(12 * time.Second) // the members give up what is in flight between them
				e.HealPeers()
				settle(t, e)
				for _, s := range followers {
					assert.Equal(t, committed, s.Exists("/a"))
				}
				require.NoError(t, leader.Start())
				settle(t, e)
				assert.Equal(t, committed, leader.Exists("/a"), "what was never committed is cut off")
			})
		})
	}
}

// Of two members the one with the committed write becomes leader, whatever their numbers.
func TestTheNewestLogLeads(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		e.Partition(2, 1)
		require.NoError(t, e.Member(2).Create("/a", nil))
		e.Member(2).Stop()
		time.Sleep(12 * time.Second) // member 2 gives up what is in flight to member 1
		e.HealPeers()
		settle(t, e)
		assert.Equal(t, 0, e.Leader())
		assert.True(t, e.Member(1).Exists("/a"))
	})
}

// A member that knows a newer epoch does not join a former leader that has not noticed its end: writes committed since
// would be lost.
func TestAStaleLeaderIsNotJoined(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		e.Partition(2)
		e.ResetPeers(0)
		e.ResetPeers(1)
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 1, e.Leader())
		require.NoError(t, e.Member(1).Create("/new", nil))
		e.Member(1).Stop()
		e.HealPeers()
		settle(t, e)
		assert.Equal(t, 0, e.Leader())
		assert.True(t, e.Member(2).Exists("/new"))
	})
}

// The end of a session deletes the nodes created before it, and allows no write after it, also while the end is only
// proposed.
func TestNothingOutlivesItsSession(t *testing.T) {
	bubble(t, 3, Config{PeerDelay: 10 * time.Millisecond}, func(t *testing.T, e *Ensemble) {
		for _, s := range e.Members() {
			c := newRaw(t, s, 40*time.Second)
			c.create("/kept", jute.ModeEphemeral)
			c.send(jute.OpCreate, mk("/before", jute.ModeEphemeral))
			time.Sleep(15 * time.Millisecond) // proposed, not committed
			e.Expire(c.hello.SessionID)
			c.send(jute.OpCreate, mk("/behind", jute.ModeEphemeral))
			c.closed()
			time.Sleep(time.Second)
			for _, s := range e.Members() {
				assert.Len(t, s.Tree(), 1, "only the root is left")
				assert.Empty(t, s.Sessions())
			}
		}
	})
}

// heartbeat pings every half second until the connection ends, and returns when the last reply came.
func heartbeat(c *raw) (last func() time.Time) {
	var mu sync.Mutex
	var at time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		ping := jute.Frame(&jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
		for {
			if _, err := c.nc.Write(ping); err != nil {
				return
			}
			if _, err := c.recv(); err != nil {
				return
			}
			mu.Lock()
			at = time.Now()
			mu.Unlock()
			time.Sleep(500 * time.Millisecond)
		}
	}()
	return func() time.Time {
		<-done
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}

// A follower that is cut off from its leader continues to reply, while its clients' sessions expire; so does a leader
// that is cut off from all followers.
func TestMemberCutOffGoesOnAnswering(t *testing.T) {
	for name, story := range map[string]struct {
		leader   bool
		cut      func(e *Ensemble, member, leader int)
		from, to float64 // seconds until the last reply came
	}{
		"follower, both ways":       {false, func(e *Ensemble, m, _ int) { e.Partition(m) }, 8.5, 10},
		"follower, towards leader":  {false, func(e *Ensemble, m, l int) { e.CutLink(m, l) }, 9.5, 11},
		"follower, from the leader": {false, func(e *Ensemble, m, l int) { e.CutLink(l, m) }, 8.5, 10},
		"leader": {true, func(e *Ensemble, m, _ int) {
			e.Partition(m)
			for f := range e.Size() {
				if f != m {
					e.ResetPeers(f) // the followers notice immediately
				}
			}
		}, 9, 12},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
				leader, followers := roles(e)
				victim := followers[0]
				if story.leader {
					victim = leader
				}
				c, watcher := newRaw(t, victim, 4*time.Second), newRaw(t, followers[1], 40*time.Second)
				c.create("/e", jute.ModeEphemeral)
				last := heartbeat(c)
				time.Sleep(10300 * time.Millisecond)
				cut := time.Now()
				story.cut(e, victim.member.index, leader.member.index)
				if story.leader {
					watcher.closed()
					time.Sleep(time.Second)
					watcher = watcher.again(followers[1])
				}
				watcher.call(jute.OpGetData, watch("/e"))
				_, err := watcher.nc.Read(make([]byte, 1))
				require.NoError(t, err)
				gone := time.Since(cut)
				sync := dialRaw(t, victim)
				if story.leader { // for its own clients a sync is a plain read: it proves nothing
					require.NoError(t, sync.shake(c.resume(4000)))
					assert.Equal(t, ok, sync.code(jute.OpSync, &jute.PathRequest{Path: "/e"}))
					assert.Equal(t, ok, sync.code(jute.OpExists, at("/e")))
					last = heartbeat(sync)
				}
				answered := last().Sub(cut)
				t.Logf("session gone at cut+%v, the member answered until cut+%v", gone, answered)
				assert.Greater(t, gone, 2*time.Second)
				assert.Less(t, gone, 7*time.Second)
				assert.GreaterOrEqual(t, answered.Seconds(), story.from)
				assert.LessOrEqual(t, answered.Seconds(), story.to)
				refused := dialRaw(t, victim).shake(&jute.ConnectRequest{Timeout: 4000})
				require.Error(t, refused, "it has no leader")
				e.HealPeers()
				settle(t, e)
				assert.Equal(t, e.Member(1).Tree(), victim.Tree())
				newRaw(t, victim, 4*time.Second).create("/again", 0)
			})
		})
	}
}

func TestIsolatedLeaderCannotWriteAndForgetsWhatItProposed(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		c := newRaw(t, leader, 40*time.Second)
		e.Partition(leader.member.index)
		c.send(jute.OpCreate, mk("/lost", 0))
		c.send(jute.OpPing) // waits for the write
		c.closed()
		settled := time.Now()
		for e.Leader() < 0 || e.Member(e.Leader()) == leader {
			require.Less(t, time.Since(settled), time.Minute)
			time.Sleep(time.Second)
		}
		require.NoError(t, followers[0].Create("/kept", nil))
		e.HealPeers()
		settle(t, e)
		assert.False(t, leader.Exists("/lost"))
		assert.True(t, leader.Exists("/kept"))
	})
}

// The leader resigns while Create waits for the commit of the first of two parents. It orders no write then: as a
// follower its log would differ from its leader's.
func TestAFormerLeaderOrdersNoDirectWrite(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		for _, f := range followers {
			e.CutLink(f.member.index, leader.member.index)
		}
		created := make(chan error, 1)
		go func() { created <- leader.Create("/a/b/c", nil) }()
		synctest.Wait()
		time.Sleep(time.Second)
		leader.Stop()
		e.HealPeers()
		settle(t, e)
		require.NoError(t, leader.Start())
		settle(t, e)
		require.NotEqual(t, leader, e.Member(e.Leader()))
		require.ErrorIs(t, <-created, ErrConnectionLoss)
		for _, s := range e.Members() {
			require.NoError(t, s.Create("/later", nil))
			require.NoError(t, s.Delete("/later"))
		}
		settle(t, e)
		for _, s := range e.Members() {
			assert.True(t, s.Exists("/a"))
			assert.False(t, s.Exists("/a/b"))
		}
	})
}

func TestPausedLeader(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		c := newRaw(t, followers[0], 4*time.Second)
		c.create("/e", jute.ModeEphemeral)
		last := heartbeat(c)
		time.Sleep(10 * time.Second)
		start := time.Now()
		leader.Pause()
		time.Sleep(7 * time.Second)
		assert.True(t, followers[0].Exists("/e"))
		leader.Resume()
		assert.False(t, followers[0].Exists("/e"), "it knows of no ping for seven seconds")
		assert.GreaterOrEqual(t, last().Sub(start), 6*time.Second, "the member answered all the time")
		assert.Equal(t, leader, e.Member(e.Leader()))
		// Too long: the other members continue without it.
		leader.Pause()
		time.Sleep(11 * time.Second)
		settled := e.Leader()
		require.GreaterOrEqual(t, settled, 0)
		assert.NotEqual(t, leader, e.Member(settled))
		leader.Resume()
		settle(t, e)
		assert.Equal(t, settled, e.Leader())
		assert.Contains(t, word(t, leader, "srvr"), "Mode: follower")
	})
}

func TestPausedFollower(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		followers[0].Pause()
		require.NoError(t, leader.Create("/a", nil))
		assert.True(t, followers[1].Exists("/a"))
		assert.False(t, followers[0].Exists("/a"))
		followers[0].Resume()
		assert.True(t, followers[0].Exists("/a"), "short: it catches up")
		followers[0].Pause()
		require.NoError(t, leader.Create("/b", nil))
		time.Sleep(time.Minute)
		followers[0].Resume()
		settle(t, e)
		assert.True(t, followers[0].Exists("/b"))
	})
}

func TestWithoutAQuorum(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		c := newRaw(t, leader, 40*time.Second)
		followers[0].Stop()
		c.create("/two", 0)
		followers[1].Stop()
		c.send(jute.OpCreate, mk("/one", 0))
		c.closed()
		assert.Equal(t, -1, e.Leader())
		assert.Contains(t, word(t, leader, "srvr"), "not currently serving")
		assert.Equal(t, "null", word(t, leader, "isro"))
		require.NoError(t, followers[0].Start())
		settle(t, e)
		assert.True(t, followers[0].Exists("/one"), "its proposer has lived on: it has the newest log")
	})
}

func TestWipedMemberCatchesUp(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		c := newRaw(t, leader, 40*time.Second)
		c.create("/a", jute.ModeEphemeral)
		for range 3 {
			c.create("/s-", jute.ModePersistentSequential)
		}
		followers[0].Wipe()
		assert.Len(t, followers[0].Tree(), 1)
		settle(t, e)
		assert.Equal(t, leader.Tree(), followers[0].Tree())
		leader.Wipe() // the other members have the data
		settle(t, e)
		assert.Equal(t, followers[0].Tree(), leader.Tree())
		c = c.again(leader)
		assert.NotZero(t, c.hello.SessionID)
		assert.Equal(t, "/s-0000000004", c.create("/s-", jute.ModePersistentSequential))
	})
}

func TestEnsembleWordsAndConfig(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		assert.Contains(t, word(t, leader, "srvr"), "Mode: leader")
		assert.Contains(t, word(t, followers[0], "stat"), "Mode: follower")
		assert.Contains(t, word(t, leader, "mntr"), "zk_server_state\tleader")
		assert.Contains(t, word(t, leader, "mntr"), "zk_synced_followers\t2")
		assert.Contains(t, word(t, followers[0], "mntr"), "zk_server_state\tfollower")
		assert.Equal(t, "rw", word(t, followers[0], "isro"))
		config := string(leader.tree.lookup(configPath).data)
		for i, addr := range strings.Split(e.ConnectString(), ",") {
			assert.Contains(t, config, "server."+string(rune('1'+i))+"=")
			assert.Contains(t, config, ":participant;"+addr+"\n")
		}
		assert.Contains(t, word(t, followers[1], "conf"), "serverId=2\n")
		_, err := e.Dial(t.Context(), "tcp", "203.0.113.1:1")
		require.Error(t, err)
		followers[0].Stop()
		_, err = e.Dial(t.Context(), "tcp", followers[0].Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

// Without sessions and faults no timer runs, and later the silence does not count as a fault.
func TestIdleEnsembleHasNoTimers(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		next := func() time.Time {
			synctest.Wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.next
		}
		assert.Zero(t, next())
		time.Sleep(time.Hour)
		c := newRaw(t, e.Member(0), 10*time.Second)
		assert.NotZero(t, next())
		c.call(jute.OpCloseSession)
		time.Sleep(2 * time.Second)
		assert.Zero(t, next())
		time.Sleep(time.Hour)
		e.Partition(e.Leader())
		assert.NotZero(t, next())
		time.Sleep(8 * time.Second)
		assert.Equal(t, 2, e.Leader(), "nobody has noticed yet")
		e.HealPeers()
		require.NoError(t, e.Member(0).Create("/a", nil))
		assert.Zero(t, next())
	})
}

func TestEnsembleOnGivenPorts(t *testing.T) {
	assert.Equal(t, "127.0.0.1:2183", portAfter("127.0.0.1:2181", 2))
	assert.Equal(t, "[::1]:0", portAfter("[::1]:0", 2))
	assert.Equal(t, "nonsense", portAfter("nonsense", 2))
	_, err := NewEnsemble(3, Config{Listen: "nonsense"})
	require.Error(t, err)
}

func TestReaperOfAnEnsemble(t *testing.T) {
	bubble(t, 3, Config{ExtendedTypes: true}, func(t *testing.T, e *Ensemble) {
		_, followers := roles(e)
		c := newRaw(t, followers[0], 40*time.Second)
		assert.Equal(t, ok, c.code(jute.OpCreateContainer, mk("/c", jute.ModeContainer)))
		c.create("/c/x", 0)
		assert.Equal(t, ok, c.code(jute.OpDelete, rm("/c/x")))
		c.nc.Close()
		time.Sleep(2 * time.Minute)
		for _, s := range e.Members() {
			assert.False(t, s.Exists("/c"))
		}
	})
}

func TestMessagesTakeTheirTime(t *testing.T) {
	bubble(t, 3, Config{PeerDelay: 10 * time.Millisecond}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		l, f := newRaw(t, leader, 40*time.Second), newRaw(t, followers[0], 40*time.Second)
		start := time.Now()
		l.create("/a", 0)
		assert.Equal(t, 20*time.Millisecond, time.Since(start), "proposal and acknowledgement")
		start = time.Now()
		f.create("/b", 0)
		assert.Equal(t, 40*time.Millisecond, time.Since(start), "and there and back again")
		start = time.Now()
		assert.Equal(t, ok, f.code(jute.OpSync, &jute.PathRequest{Path: "/"}))
		assert.Equal(t, 20*time.Millisecond, time.Since(start))

		// Uncommitted writes at the leader count for later requests.
		for range 3 {
			l.send(jute.OpCreate, mk("/s-", jute.ModePersistentSequential))
		}
		l.send(jute.OpDelete, rm("/b"))
		l.send(jute.OpCreate, mk("/b/x", 0))
		l.send(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Version: 0})
		l.send(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Version: 0})
		l.send(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Version: 1})
		for i, want := range []Error{ok, ok, ok, ok, ErrNoNode, ok, ErrBadVersion, ok} {
			r, err := l.recv()
			require.NoError(t, err)
			assert.Equal(t, want, Error(r.Err), i)
		}
		kids, err := leader.Children("/")
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "s-0000000002", "s-0000000003", "s-0000000004", "zookeeper"}, kids)
	})
}

func TestCloseOfAnEnsembleLeavesNothingBehind(t *testing.T) {
	e := RunEnsembleT(t, 3, Config{Listen: "127.0.0.1:0", Lag: time.Hour, PeerDelay: time.Hour})
	nc, err := e.Dial(t.Context(), "tcp", e.Addrs()[0])
	require.NoError(t, err)
	_, err = nc.Write(jute.Frame(&jute.ConnectRequest{Timeout: 4000}))
	require.NoError(t, err)
	e.Close()
	e.Close()
	_, err = io.ReadAll(nc)
	require.NoError(t, err)
}

func TestPlainClientsOnAnEnsembleOverTCP(t *testing.T) {
	e := RunEnsembleT(t, 3, Config{Listen: "127.0.0.1:0"})
	c, _, err := zk.Connect(strings.Split(e.ConnectString(), ","), 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Create("/a", []byte("x"), 0, open)
	require.NoError(t, err)
	config, _, err := c.Get("/zookeeper/config")
	require.NoError(t, err)
	assert.Contains(t, string(config), ";"+e.Addrs()[2]+"\n")
}

func TestHundredSessionsOnThreeMembers(t *testing.T) {
	real := time.Now()
	defer func() { t.Logf("took %v", time.Since(real)) }()
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			c := newRaw(t, e.Member(i%3), 10*time.Second)
			wg.Go(func() {
				for time.Since(start) < 10*time.Minute {
					time.Sleep(3 * time.Second)
					c.call(jute.OpPing)
				}
			})
		}
		wg.Wait()
		assert.Len(t, e.Member(0).Sessions(), 100)
		assert.Equal(t, 20000, e.Counts()["ping"])
	})
}
