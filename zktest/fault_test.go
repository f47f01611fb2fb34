package zktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// silent asserts that nothing arrives for d.
func (c *raw) silent(d time.Duration) {
	c.t.Helper()
	require.NoError(c.t, c.nc.SetReadDeadline(time.Now().Add(d)))
	_, err := c.recv()
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded)
	require.NoError(c.t, c.nc.SetReadDeadline(time.Time{}))
}

func TestStopRefusesAndStartGivesFullTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 10*time.Second)
		c.create("/e", jute.ModeEphemeral)
		s.Stop()
		c.closed()
		_, err := s.Dial(t.Context(), "tcp", s.Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		time.Sleep(time.Hour)
		require.NoError(t, s.Start())
		assert.True(t, s.Exists("/e"))
		n := c.again(s)
		assert.Equal(t, c.hello.SessionID, n.hello.SessionID)
		require.NoError(t, s.Restart())
		n.closed()
		assert.GreaterOrEqual(t, s.Sessions()[0].Expires, 10*time.Second)
		time.Sleep(13 * time.Second)
		assert.False(t, s.Exists("/e"))
	})
}

func TestWipe(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/a", 0)
	seen := s.Zxid()
	s.Wipe()
	c.closed()
	assert.Len(t, s.Tree(), 1)
	n := dialRaw(t, s)
	ahead := c.resume(10000)
	ahead.LastZxidSeen = seen
	require.Error(t, n.shake(ahead))
	n = dialRaw(t, s)
	require.NoError(t, n.shake(c.resume(10000)))
	assert.Zero(t, n.hello.SessionID)
	n = newRaw(t, s, 10*time.Second)
	assert.NotEqual(t, c.hello.SessionID, n.hello.SessionID)
	n.create("/a", 0)
}

func TestPausedServerIsSilentAndExpiresOnResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		watcher, c := newRaw(t, s, 40*time.Second), newRaw(t, s, 4*time.Second)
		c.create("/e", jute.ModeEphemeral)
		watcher.call(jute.OpExists, watch("/e"))
		s.Pause()
		late := dialRaw(t, s) // accepted
		late.write(jute.Frame(&jute.ConnectRequest{Timeout: 10000}))
		c.send(jute.OpPing)
		c.silent(20 * time.Second)
		late.silent(time.Second)
		assert.True(t, s.Exists("/e"))
		s.Resume()
		c.closed() // the ping arrived after the session timeout
		assert.Equal(t, []string{"NodeDeleted /e"}, watcher.heard())
		_, err := late.frame()
		require.NoError(t, err)
	})
}

func TestBlackHoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c, other := newRaw(t, s, 10*time.Second), newRaw(t, s, 10*time.Second)
		s.BlackHole(c.hello.SessionID, ToClient)
		xid := c.send(jute.OpCreate, mk("/a", 0))
		c.silent(time.Second)
		assert.True(t, s.Exists("/a"), "executed")
		assert.Equal(t, ok, other.code(jute.OpPing))
		s.Heal()
		r, err := c.recv()
		require.NoError(t, err)
		assert.Equal(t, xid, r.Xid)

		s.BlackHole(c.hello.SessionID, FromClient)
		c.send(jute.OpCreate, mk("/b", 0))
		c.silent(5 * time.Second)
		assert.False(t, s.Exists("/b"), "not received")
		assert.Equal(t, ok, other.code(jute.OpPing))
		s.Heal()
		_, err = c.recv()
		require.NoError(t, err)
		assert.True(t, s.Exists("/b"))

		// Neither side learns that the other has ended the connection or the session.
		s.BlackHole(0, Both)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Dial(ctx, "tcp", s.Addr())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.silent(30 * time.Second)
		assert.Empty(t, s.Sessions())
		s.Heal()
		c.closed()
	})
}

func TestLatePackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c, other := newRaw(t, s, 10*time.Second), newRaw(t, s, 10*time.Second)
		s.BlackHole(c.hello.SessionID, Both)
		s.BlackHole(other.hello.SessionID, FromClient)
		c.send(jute.OpCreate, mk("/a", 0))
		other.send(jute.OpCreate, mk("/b", 0))
		require.NoError(t, c.nc.Close(), "the client gives up")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.False(t, s.Exists("/a"))
		s.HealSession(c.hello.SessionID)
		synctest.Wait()
		assert.True(t, s.Exists("/a"), "executed all the same")
		assert.False(t, s.Exists("/b"), "another session's")
	})
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Config{Pace: time.Millisecond})
		c := newRaw(t, s, 40*time.Second)
		time.Sleep(time.Second) // so that no request has to wait for an earlier one
		for range 3 {
			c.send(jute.OpPing)
		}
		for _, want := range []time.Duration{0, time.Millisecond, time.Millisecond} {
			start := time.Now()
			_, err := c.recv()
			require.NoError(t, err)
			assert.Equal(t, want, time.Since(start))
		}
	})
	_, err := NewServer(Config{Pace: -1})
	require.Error(t, err)
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 40*time.Second)
		rtt := func() time.Duration {
			start := time.Now()
			c.call(jute.OpPing)
			return time.Since(start)
		}
		s.Delay(c.hello.SessionID, 3*time.Second)
		c.call(jute.OpExists, watch("/a"))
		start := time.Now()
		require.NoError(t, s.Create("/a", nil))
		assert.Equal(t, 3*time.Second, rtt())
		assert.Len(t, c.events, 1)
		assert.Equal(t, 3*time.Second, time.Since(start))
		s.Delay(c.hello.SessionID, 0)
		assert.Zero(t, rtt())
		s.Delay(0, time.Second)
		assert.Equal(t, time.Second, rtt())
		s.Heal()
		assert.Zero(t, rtt())
		s.Delay(0, time.Hour)
		c.send(jute.OpPing)
		s.Cut(0)
		start = time.Now()
		c.closed()
		assert.Zero(t, time.Since(start), "a cut does not wait")
	})
}

func TestInjections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 40*time.Second)
		c.create("/d", 0)

		drop := s.Inject(Fault{Op: "create2", PathPrefix: "/d/", Action: DropRequest, After: 1})
		c.create("/d/1", 0)
		c.send(jute.OpCreate2, mk("/d/2", 0))
		c.silent(time.Second)
		<-drop.Struck()
		assert.Equal(t, 1, drop.Hits())
		c.create("/d/3", 0) // Times defaults to one
		assert.False(t, s.Exists("/d/2"))

		s.Inject(Fault{Session: c.hello.SessionID, Action: ReplyError, Err: ErrConnectionLoss, Op: "setData"})
		assert.Equal(t, ErrConnectionLoss, c.code(jute.OpSetData, put("/d", "x")))
		assert.Equal(t, ok, c.code(jute.OpSetData, put("/d", "x")))

		lose := s.Inject(Fault{Op: "multi", PathPrefix: "/d/lost", Action: LoseReply})
		c.call(jute.OpExists, watch("/d/lost"))
		c.send(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
			{Op: jute.OpCheck, Request: rm("/d")},
			{Op: jute.OpCreate, Request: mk("/d/lost", 0)},
		}})
		c.closed()
		assert.Empty(t, c.events)
		assert.True(t, s.Exists("/d/lost"))
		assert.Equal(t, 1, lose.Hits())

		c = c.again(s)
		s.Inject(Fault{Op: "delete", Action: CutBefore})
		c.send(jute.OpDelete, rm("/d/lost"))
		c.closed()
		assert.True(t, s.Exists("/d/lost"))

		half := s.Inject(Fault{Op: "connect", Action: HalfHandshake, Times: -1})
		n := dialRaw(t, s)
		n.write(jute.Frame(&jute.ConnectRequest{Timeout: 10000}))
		var head [4]byte
		_, err := n.nc.Read(head[:])
		require.NoError(t, err)
		n.silent(time.Second)
		half.Remove()

		s.Inject(Fault{Op: "connect", Session: c.hello.SessionID, Action: ReplyError})
		assert.Zero(t, c.again(s).hello.SessionID, "told that the session has expired")
		c = c.again(s)
		assert.NotZero(t, c.hello.SessionID)

		s.Inject(Fault{Op: "getData", Action: DelayReply, Delay: 5 * time.Second})
		start := time.Now()
		c.call(jute.OpGetData, at("/d"))
		assert.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c, other := newRaw(t, s, 40*time.Second), newRaw(t, s, 40*time.Second)
		hold := s.Inject(Fault{Op: "create", Action: Hold})
		c.send(jute.OpCreate, mk("/a", 0))
		c.send(jute.OpGetData, at("/a"))
		<-hold.Struck()
		c.silent(time.Second)
		assert.Equal(t, ErrNoNode, other.code(jute.OpGetData, at("/a")))
		hold.Release()
		for range 2 {
			r, err := c.recv()
			require.NoError(t, err)
			assert.Equal(t, ok, Error(r.Err))
		}

		held := s.Inject(Fault{Op: "delete", Action: HoldReply})
		c.call(jute.OpExists, watch("/a"))
		c.send(jute.OpDelete, rm("/a"))
		<-held.Struck()
		c.send(jute.OpPing)
		c.silent(time.Second)
		assert.False(t, s.Exists("/a"))
		held.Release()
		for range 2 { // the replies to the delete and the ping
			_, err := c.recv()
			require.NoError(t, err)
		}
		assert.Equal(t, []string{"NodeDeleted /a"}, c.heard())

		// A request that is parked when the connection ends is not executed.
		hold = s.Inject(Fault{Op: "create", Action: Hold})
		c.send(jute.OpCreate, mk("/b", 0))
		<-hold.Struck()
		s.Cut(c.hello.SessionID)
		c.closed()
		hold.Release()
		synctest.Wait()
		assert.False(t, s.Exists("/b"))
	})
}

// A paused server executes nothing, not even a request that was parked by a fault and is released during the pause.
func TestReleasedInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 40*time.Second)
		hold := s.Inject(Fault{Op: "create", Action: Hold})
		c.send(jute.OpCreate, mk("/a", 0))
		<-hold.Struck()
		s.Pause()
		hold.Release()
		synctest.Wait()
		assert.False(t, s.Exists("/a"))
		s.Resume()
		_, err := c.recv()
		require.NoError(t, err)
		assert.True(t, s.Exists("/a"))
	})
}

func TestInjectRefusesNonsense(t *testing.T) {
	s := RunT(t)
	assert.Panics(t, func() { s.Inject(Fault{Op: "creat", Action: Hold}) })
	assert.Panics(t, func() { s.Inject(Fault{Op: "create"}) })
}

func TestCountsAndTrace(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/a", 0)
	c.call(jute.OpPing)
	c.call(jute.OpPing)
	c.call(777)
	assert.Equal(t, map[string]int{"connect": 1, "create2": 1, "ping": 2, "op 777": 1}, s.Counts())
	assert.Equal(t, map[string]int{"create2": 1, "ping": 2, "op 777": 1}, s.CountsOf(c.hello.SessionID))
	trace := s.Trace()
	assert.Contains(t, trace[1], "create2 xid=1 /a -> zxid=2 ok (0)")
	s.ResetCounts()
	assert.Empty(t, s.Counts())
	for range traceSize {
		require.NoError(t, s.Set("/a", nil))
	}
	assert.Len(t, s.Trace(), traceSize)
	assert.NotContains(t, s.Trace()[0], "create2")
}

func TestDirectAccess(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/a", Value: jute.WatchPersistentRecursive})
	require.NoError(t, s.Create("/a/b/c", []byte("x")))
	require.ErrorIs(t, s.Create("/a", nil), ErrNodeExists)
	require.ErrorIs(t, s.Create("a", nil), ErrBadArguments)
	path, err := s.CreateNode("/a/s-", nil, EphemeralSequential, c.hello.SessionID)
	require.NoError(t, err)
	assert.Equal(t, "/a/s-0000000001", path)
	_, err = s.CreateNode("/a/e", nil, Ephemeral, 5)
	require.ErrorIs(t, err, ErrSessionExpired)
	kids, err := s.Children("/a")
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "s-0000000001"}, kids)
	tree := s.Tree()
	assert.Len(t, tree, 5)
	assert.Equal(t, Ephemeral, tree[path].Mode)
	assert.Equal(t, openACL, tree["/a"].ACL)
	require.ErrorIs(t, s.Delete("/a"), ErrNotEmpty)
	require.NoError(t, s.DeleteAll("/a"))
	assert.Len(t, s.Tree(), 1)
	_, _, err = s.Get("/a")
	require.ErrorIs(t, err, ErrNoNode)
	assert.Len(t, c.heard(), 8)
	assert.Equal(t, "zktest: no node (-101)", err.Error())
	var code Error
	require.True(t, errors.As(err, &code))
}

func TestConfigErrors(t *testing.T) {
	for _, cfg := range []Config{
		{TickTime: 1},
		{MinSessionTimeout: time.Hour, MaxSessionTimeout: time.Minute},
		{MaxFrame: 1},
		{ReapInterval: 1},
		{Profile: 9},
		{Listen: "no such address"},
	} {
		_, err := NewServer(cfg)
		require.Error(t, err)
	}
}

// fakeTB records the calls of RunT.
type fakeTB struct {
	testing.TB
	cleanups []func()
	failed   bool
	logs     []string
}

func (f *fakeTB) Helper()          {}
func (f *fakeTB) Failed() bool     { return f.failed }
func (f *fakeTB) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Logf(format string, a ...any) {
	f.logs = append(f.logs, fmt.Sprintf(format, a...))
}
func (f *fakeTB) Fatalf(string, ...any) {
	f.failed = true
}

func TestRunTPrintsTheTraceOfAFailure(t *testing.T) {
	for failed, want := range map[bool]int{false: 0, true: 1 + traceTail} {
		tb := &fakeTB{}
		s := RunT(tb)
		dialAndLeave(t, s)
		for range 2 * traceTail {
			require.NoError(t, s.Set("/", nil))
		}
		tb.failed = failed
		tb.cleanups[0]()
		assert.Len(t, tb.logs, want)
	}
	tb := &fakeTB{}
	assert.Nil(t, RunT(tb, Config{Profile: -1}))
	assert.True(t, tb.failed)
}

// An hour's pings do not push the requests before them out of the printed trace.
func TestPingsDoNotFillWhatIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{1, 3} {
			e, err := NewEnsemble(size, Config{})
			require.NoError(t, err)
			c := newRaw(t, e.Member(0), time.Minute)
			for range 200 {
				time.Sleep(time.Second)
				require.Equal(t, ok, c.code(jute.OpPing))
			}
			all := e.Trace()
			e.Close()
			kept := foldPings(all)
			require.Greater(t, len(all), 200)
			require.Less(t, len(kept), 20)
			assert.Contains(t, kept, "… 198 pings …")
			assert.Equal(t, all[:2], kept[:2])
		}
	})
	few := []string{
		"  1.000000s #1 0x1 ping xid=-2  -> zxid=1 ok (0)",
		"  2.000000s #1 0x1 exists xid=1 /a ping xid=-2  -> zxid=1 ok (0)",
		"  3.000000s #1 0x1 ping xid=-2  -> zxid=1 ok (0)",
		"  4.000000s #1 0x1 ping xid=-2  -> zxid=1 ok (0)",
	}
	assert.Equal(t, few, foldPings(few))
}

// dialAndLeave connects to a server in memory, and closes the connection.
func dialAndLeave(t *testing.T, s *Server) {
	conn, err := s.Dial(t.Context(), "tcp", s.Addr())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// A test without any client connection gets a hint at the dialer, other tests do not.
func TestRunTSaysThatNobodyHasConnected(t *testing.T) {
	first := func(tb *fakeTB) string {
		tb.failed = true
		tb.cleanups[0]()
		require.NotEmpty(t, tb.logs)
		return tb.logs[0]
	}
	tb := &fakeTB{}
	s := RunT(tb)
	require.NoError(t, s.Set("/", nil), "what the test itself does is no client")
	said := first(tb)
	assert.Contains(t, said, "no client has connected")
	assert.Contains(t, said, s.Addr())
	assert.Contains(t, said, "framework.WithDialer(server.Dial)")

	tb = &fakeTB{}
	RunT(tb, Config{Listen: "127.0.0.1:0"})
	said = first(tb)
	assert.Contains(t, said, "no client has connected to 127.0.0.1:")
	assert.NotContains(t, said, "Dial")

	tb = &fakeTB{}
	RunEnsembleT(tb, 3)
	assert.Contains(t, first(tb), "no client has connected")

	tb = &fakeTB{}
	e := RunEnsembleT(tb, 3)
	dialAndLeave(t, e.Member(2))
	assert.NotContains(t, first(tb), "no client")
}

func TestDiff(t *testing.T) {
	s := RunT(t)
	for path, data := range map[string]string{"/a/b": "1", "/a/c": "2", "/d": "3", "/log/x": "4"} {
		require.NoError(t, s.Create(path, []byte(data)))
	}
	assert.Empty(t, s.Diff(map[string]string{"/a/b": "1", "/a/c": "2", "/d": "3"}, "/log"))
	diff := s.Diff(map[string]string{"/a/b": "x", "/a/a": ""})
	assert.Equal(t, "- /a/a\n! /a/b: have \"1\", want \"x\"\n+ /a/c\n+ /d\n+ /log\n+ /log/x", diff)
}

// Faults and counts use the same name of an operation, also for the handshake.
func TestOperationsHaveOneName(t *testing.T) {
	s := RunT(t)
	refused := s.Inject(Fault{Op: OpConnect, Action: CutBefore})
	require.Error(t, dialRaw(t, s).shake(&jute.ConnectRequest{Timeout: 10000}))
	assert.Equal(t, 1, refused.Hits())
	slow := s.Inject(Fault{Op: OpExists, Action: ReplyError, Err: ErrThrottledOp})
	assert.Equal(t, ErrThrottledOp, newRaw(t, s, 10*time.Second).code(jute.OpExists, at("/")))
	assert.Equal(t, 1, slow.Hits())
	assert.Equal(t, map[Op]int{OpConnect: 2, OpExists: 1}, s.Counts())

	named := []Op{
		"", OpConnect, OpCreate, OpDelete, OpExists, OpGetData, OpSetData, OpGetACL, OpSetACL, OpGetChildren,
		OpSync, OpPing, OpGetChildren2, OpCheck, OpMulti, OpCreate2, OpReconfig, OpCheckWatches,
		OpRemoveWatches, OpCreateContainer, OpDeleteContainer, OpCreateTTL, OpMultiRead, OpAuth,
		OpSetWatches, OpSASL, OpGetEphemerals, OpGetAllChildrenNumber, OpSetWatches2, OpAddWatch, OpWhoAmI,
		OpCloseSession,
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(opByName)), named, "all have a constant")
}
