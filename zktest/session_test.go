package zktest

import (
	"encoding/hex"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

func TestPasswordFollowsFromTheID(t *testing.T) {
	// Seen on a real 3.8.0.
	password := sessionPassword(0x100002b4c1f0000)
	assert.Equal(t, "134f7a38a4ee371ba9bf68b68db9399a", hex.EncodeToString(password))
}

func TestTimeoutIsBounded(t *testing.T) {
	s := RunT(t, Config{TickTime: time.Second})
	granted := map[time.Duration]int32{time.Millisecond: 2000, 5 * time.Second: 5000, time.Hour: 20000}
	for asked, want := range granted {
		assert.Equal(t, want, newRaw(t, s, asked).hello.Timeout, "asked for %v", asked)
	}
}

func TestConnectResponseMirrorsTheReadOnlyByte(t *testing.T) {
	s := RunT(t)
	for _, has := range []bool{true, false} {
		c := dialRaw(t, s)
		require.NoError(t, c.shake(&jute.ConnectRequest{Timeout: 10000, HasReadOnly: has, ReadOnly: has}))
		assert.NotZero(t, c.hello.SessionID)
		assert.Len(t, c.hello.Password, 16)
		assert.Equal(t, has, c.hello.HasReadOnly)
		assert.False(t, c.hello.ReadOnly)
	}
}

// A session expires at the first tick strictly after its last touch plus its timeout.
func TestExpiryRules(t *testing.T) {
	for _, test := range []struct {
		tick, timeout, touch, want time.Duration
	}{
		{2 * time.Second, 4 * time.Second, 0, 6 * time.Second},
		{2 * time.Second, 5 * time.Second, 0, 6 * time.Second},
		{2 * time.Second, 6 * time.Second, 0, 8 * time.Second},
		{2 * time.Second, 4 * time.Second, 1999 * time.Millisecond, 6 * time.Second},
		{2 * time.Second, 4 * time.Second, 2 * time.Second, 8 * time.Second},
		{2 * time.Second, 4 * time.Second, 5999 * time.Millisecond, 10 * time.Second},
		{500 * time.Millisecond, 1200 * time.Millisecond, 250 * time.Millisecond, 1500 * time.Millisecond},
		{500 * time.Millisecond, 1200 * time.Millisecond, 1400 * time.Millisecond, 3 * time.Second},
		{3 * time.Millisecond, 10 * time.Millisecond, 0, 12 * time.Millisecond},
	} {
		name := fmt.Sprintf("tick %v timeout %v touch %v", test.tick, test.timeout, test.touch)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := RunT(t, Config{TickTime: test.tick})
				start := time.Now()
				c := newRaw(t, s, test.timeout)
				time.Sleep(test.touch)
				if test.touch > 0 {
					c.call(jute.OpPing)
				}
				assert.Equal(t, test.want-test.touch, s.Sessions()[0].Expires)
				c.closed()
				assert.Equal(t, test.want, time.Since(start))
				assert.Empty(t, s.Sessions())
			})
		})
	}
}

func TestEveryRequestInThePipelineTouches(t *testing.T) {
	touches := func(t *testing.T, op int32, recs ...jute.Record) bool {
		s := RunT(t)
		c := newRaw(t, s, 4*time.Second)
		time.Sleep(3 * time.Second)
		c.call(op, recs...)
		return len(s.Sessions()) == 1 && s.Sessions()[0].Expires > 4*time.Second
	}
	login := &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}
	for name, test := range map[string]struct {
		op   int32
		recs []jute.Record
		want bool
	}{
		"ping":        {jute.OpPing, nil, true},
		"read":        {jute.OpExists, []jute.Record{at("/none")}, true},
		"write":       {jute.OpCreate, []jute.Record{mk("/a", 0)}, true},
		"setWatches":  {jute.OpSetWatches, []jute.Record{&jute.SetWatches{}}, true},
		"sync":        {jute.OpSync, []jute.Record{&jute.PathRequest{Path: "/"}}, true},
		"malformed":   {jute.OpGetData, nil, true},
		"unknown":     {999, nil, true},
		"auth":        {jute.OpAuth, []jute.Record{login}, false},
		"auth failed": {jute.OpAuth, []jute.Record{&jute.AuthPacket{Scheme: "none"}}, false},
		"sasl":        {jute.OpSASL, []jute.Record{&jute.IntResponse{Value: -1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				assert.Equal(t, test.want, touches(t, test.op, test.recs...))
			})
		})
	}
}

func TestReattachClosesTheOldConnectionFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 10*time.Second)
		c.call(jute.OpExists, watch("/a"))
		require.Len(t, s.Watches(), 1)
		n := c.again(s)
		assert.Equal(t, c.hello, n.hello)
		c.closed()
		assert.Empty(t, s.Watches(), "watches belong to the connection")
		assert.Equal(t, ok, n.code(jute.OpPing))
		// A wrong password is refused, but the owner loses its connection all the same.
		intruder := dialRaw(t, s)
		guess := &jute.ConnectRequest{SessionID: c.hello.SessionID, Password: make([]byte, 16)}
		require.NoError(t, intruder.shake(guess))
		assert.Zero(t, intruder.hello.SessionID)
		assert.Zero(t, intruder.hello.Timeout)
		intruder.closed()
		n.closed()
		// With the computed password any client can take the session over.
		thief := dialRaw(t, s)
		guess = &jute.ConnectRequest{Timeout: 9000, SessionID: c.hello.SessionID}
		guess.Password = sessionPassword(c.hello.SessionID)
		require.NoError(t, thief.shake(guess))
		assert.Equal(t, c.hello.SessionID, thief.hello.SessionID)
	})
}

func TestReattachReplacesTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 30*time.Second)
		c.nc.Close()
		n := dialRaw(t, s)
		require.NoError(t, n.shake(c.resume(4000)))
		assert.Equal(t, int32(4000), n.hello.Timeout)
		start := time.Now()
		n.closed()
		assert.Equal(t, 6*time.Second, time.Since(start).Round(time.Second))
	})
}

// A restarted server, or a new leader, has the session's timeout from its creation, not from later handshakes.
func TestARestartGivesTheTimeoutOfTheCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 4*time.Second)
		c.nc.Close()
		n := dialRaw(t, s)
		require.NoError(t, n.shake(c.resume(20000)))
		assert.Equal(t, int32(20000), n.hello.Timeout)
		assert.Equal(t, 20*time.Second, s.Sessions()[0].Timeout)
		s.Stop()
		require.NoError(t, s.Restart())
		start := time.Now()
		for len(s.Sessions()) > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 6*time.Second, time.Since(start).Round(time.Second))
	})
}

func TestUnknownSessionAndZxidAhead(t *testing.T) {
	s := RunT(t)
	c := dialRaw(t, s)
	unknown := &jute.ConnectRequest{Timeout: 4000, SessionID: 42, Password: sessionPassword(42)}
	require.NoError(t, c.shake(unknown))
	assert.Zero(t, c.hello.SessionID)
	c.closed()
	ahead := dialRaw(t, s)
	err := ahead.shake(&jute.ConnectRequest{Timeout: 4000, LastZxidSeen: s.Zxid() + 1})
	require.Error(t, err, "no answer at all")
	level := dialRaw(t, s)
	require.NoError(t, level.shake(&jute.ConnectRequest{Timeout: 4000, LastZxidSeen: s.Zxid()}))
}

func TestEndOfSessionDeletesItsNodesInOneTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		watcher, owner := newRaw(t, s, 40*time.Second), newRaw(t, s, 4*time.Second)
		owner.create("/x", jute.ModeEphemeral)
		owner.create("/y", jute.ModeEphemeral)
		assert.Equal(t, []string{"/x", "/y"}, s.Sessions()[1].Ephemerals)
		watcher.call(jute.OpGetData, watch("/x"))
		watcher.call(jute.OpGetData, watch("/y"))
		before := s.Zxid()
		time.Sleep(6*time.Second + time.Millisecond)
		assert.Equal(t, before+1, s.Zxid())
		assert.Equal(t, []string{"NodeDeleted /x", "NodeDeleted /y"}, watcher.heard())
		_, err := owner.recv()
		require.Error(t, err)
	})
}

func TestCloseSessionTellsItsOwnWatches(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/e", jute.ModeEphemeral)
	c.call(jute.OpGetData, watch("/e"))
	assert.Equal(t, ok, c.code(jute.OpCloseSession))
	gone := jute.WatcherEvent{Type: jute.EventNodeDeleted, State: jute.StateSyncConnected, Path: "/e"}
	assert.Equal(t, []jute.WatcherEvent{gone}, c.events)
	c.closed()
	assert.Empty(t, s.Sessions())
}

func TestRequireAuth(t *testing.T) {
	s := RunT(t, Config{RequireAuth: true})
	c := newRaw(t, s, 10*time.Second)
	assert.Equal(t, ErrSessionClosedRequireAuth, c.code(jute.OpExists, at("/a")))
	c.closed()
	c = newRaw(t, s, 10*time.Second)
	assert.Equal(t, ok, c.code(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}))
	assert.Equal(t, ErrNoNode, c.code(jute.OpExists, at("/a")))
}

// Virtual clocks stand still, but servers that are started at one instant have different session ids, and no server has
// a session of another.
func TestServersOfOneInstantHaveTheirOwnSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := map[int64]bool{}
		servers := []*Server{RunT(t), RunT(t), RunT(t, Config{Profile: V39})}
		for range 2 {
			servers = append(servers, RunEnsembleT(t, 3).Members()...)
		}
		for _, s := range servers {
			for range 3 {
				id := newRaw(t, s, 10*time.Second).hello.SessionID
				assert.False(t, known[id], "%#x", id)
				known[id] = true
			}
		}
		c := newRaw(t, servers[0], 10*time.Second)
		stranger := dialRaw(t, servers[1])
		require.NoError(t, stranger.shake(c.resume(10000)))
		assert.Zero(t, stranger.hello.SessionID, "expired, since it never was")
	})
}
