package zktest

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// lonely stops all members of an ensemble except member 0.
func lonely(t *testing.T, e *Ensemble) *Server {
	t.Helper()
	e.Member(1).Stop()
	e.Member(2).Stop()
	time.Sleep(10 * time.Second)
	require.Equal(t, -1, e.Leader())
	return e.Member(0)
}

func TestReadOnlyMember(t *testing.T) {
	bubble(t, 3, Config{ReadOnlyMode: true, LocalSessions: true}, func(t *testing.T, e *Ensemble) {
		before := newRaw(t, e.Member(0), 40*time.Second)
		before.create("/a", jute.ModeEphemeral)
		s := lonely(t, e)
		before.closed()
		assert.Equal(t, "ro", word(t, s, "isro"))
		assert.Contains(t, word(t, s, "srvr"), "Mode: read-only")

		writer := dialRaw(t, s)
		refused := writer.shake(&jute.ConnectRequest{Timeout: 10000, HasReadOnly: true})
		require.Error(t, refused, "a client that wants to write is refused without a word")
		c := dialRaw(t, s)
		require.NoError(t, c.shake(onlyReading(10000)))
		assert.NotZero(t, c.hello.SessionID)
		assert.True(t, c.hello.ReadOnly)
		again := dialRaw(t, s)
		req := before.resume(40000)
		req.HasReadOnly, req.ReadOnly = true, true
		require.NoError(t, again.shake(req), "a session of before is still known")
		assert.Equal(t, before.hello.SessionID, again.hello.SessionID)

		assert.Equal(t, ok, c.code(jute.OpGetData, watch("/a")))
		check := jute.MultiOp{Op: jute.OpCheck, Request: rm("/a")}
		for op, rec := range map[int32]jute.Record{
			jute.OpCreate:  mk("/b", 0),
			jute.OpCreate2: mk("/b", 0),
			jute.OpDelete:  rm("/a"),
			jute.OpSetData: put("/a", "x"),
			jute.OpSync:    &jute.PathRequest{Path: "/"},
			jute.OpMulti:   &jute.MultiRequest{Ops: []jute.MultiOp{check}},
		} {
			assert.Equal(t, ErrNotReadOnly, c.code(op, rec), opName(op))
		}
		zxid := s.Zxid()
		quick := dialRaw(t, s)
		require.NoError(t, quick.shake(onlyReading(4000)))
		quick.closed() // its session timeout ends here
		farewell := dialRaw(t, s)
		require.NoError(t, farewell.shake(onlyReading(4000)))
		assert.Equal(t, ok, farewell.code(jute.OpCloseSession))
		farewell.closed()
		assert.Equal(t, zxid, s.Zxid(), "nothing of that is written down")

		// With a quorum again the read-only connections end, and the session continues at another member.
		c.call(jute.OpPing)
		require.NoError(t, e.Member(1).Start())
		c.closed()
		again.closed()
		settle(t, e)
		assert.Equal(t, "rw", word(t, s, "isro"))
		back := before.again(e.Member(1))
		assert.Equal(t, before.hello.SessionID, back.hello.SessionID)
		assert.False(t, back.hello.ReadOnly)
		assert.Equal(t, ok, back.code(jute.OpSetData, put("/a", "y")))
		assert.Len(t, s.Sessions(), 1, "the member's own are forgotten")
		unknown := dialRaw(t, s)
		require.NoError(t, unknown.shake(c.resume(4000)))
		assert.Zero(t, unknown.hello.SessionID)
	})
}

func TestWithoutReadOnlyModeALonelyMemberRefusesAll(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		s := lonely(t, e)
		require.Error(t, dialRaw(t, s).shake(onlyReading(10000)))
	})
}

// As in ZooKeeper 3.8 the request for a session is refused like any other request that a member without a quorum
// refuses, with the same form of reply.
func TestAReadOnlyMemberThatMayOpenNoSessions(t *testing.T) {
	req := onlyReading(10000)
	req.Password = make([]byte, 16)
	hello := jute.Frame(req)
	bubble(t, 3, Config{ReadOnlyMode: true}, func(t *testing.T, e *Ensemble) {
		s := lonely(t, e)
		nc, err := s.Dial(t.Context(), "tcp", s.Addr())
		require.NoError(t, err)
		defer nc.Close()
		_, err = nc.Write(hello)
		require.NoError(t, err)
		answer := make([]byte, 20)
		_, err = io.ReadFull(nc, answer)
		require.NoError(t, err)
		assert.Equal(t, jute.Frame(&jute.ReplyHeader{Zxid: s.Zxid(), Err: jute.CodeNotReadOnly}), answer)
		assert.Empty(t, s.Sessions())
	})
	bubble(t, 3, Config{ReadOnlyMode: true}, func(t *testing.T, e *Ensemble) {
		s := lonely(t, e)
		s.Inject(Fault{Op: OpConnect, Action: LoseReply})
		nc, err := s.Dial(t.Context(), "tcp", s.Addr())
		require.NoError(t, err)
		defer nc.Close()
		_, err = nc.Write(hello)
		require.NoError(t, err)
		answer, err := io.ReadAll(nc)
		require.NoError(t, err, "the connection ends")
		assert.Empty(t, answer, "a fault strikes this answer like any other")
	})
	bubble(t, 3, Config{ReadOnlyMode: true, Profile: V35}, func(t *testing.T, e *Ensemble) {
		c := dialRaw(t, lonely(t, e))
		require.NoError(t, c.shake(onlyReading(10000)))
		assert.True(t, c.hello.ReadOnly)
	})
}
