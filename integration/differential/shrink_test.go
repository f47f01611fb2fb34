package differential

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// lying is a server whose frames are changed on their way, except the reply to the handshake.
type lying struct {
	inProcess
	change func(header jute.ReplyHeader, frame []byte) [][]byte
}

func (s lying) Name() string { return "a liar" }

func (s lying) Dial() (net.Conn, error) {
	nc, err := s.inProcess.Dial()
	return &lyingConn{Conn: nc, change: s.change}, err
}

type lyingConn struct {
	net.Conn
	change  func(header jute.ReplyHeader, frame []byte) [][]byte
	frames  int
	pending []byte
}

func (c *lyingConn) Read(b []byte) (int, error) {
	for len(c.pending) == 0 {
		var head [4]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		frame := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c.Conn, frame); err != nil {
			return 0, err
		}
		changed := [][]byte{frame}
		if c.frames++; c.frames > 1 {
			var header jute.ReplyHeader
			if err := jute.Unmarshal(frame, &header); err != nil {
				return 0, err
			}
			changed = c.change(header, frame)
		}
		for _, frame := range changed {
			c.pending = binary.BigEndian.AppendUint32(c.pending, uint32(len(frame)))
			c.pending = append(c.pending, frame...)
		}
	}
	n := copy(b, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

// withHeader puts another header in front of a frame's body.
func withHeader(header jute.ReplyHeader, frame []byte) []byte {
	return append(jute.Marshal(&header), frame[16:]...)
}

func truth(_ jute.ReplyHeader, frame []byte) [][]byte { return [][]byte{frame} }

// pairWith returns an honest zktest and another server.
func pairWith(t *testing.T, other System) Pair {
	left, err := NewHost(startInProcess(t, never, zktest.V39))
	require.NoError(t, err)
	right, err := NewHost(other)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, Pair{left, right}.Close()) })
	return Pair{left, right}
}

// firstDifference runs histories until one differs, and shrinks it.
func firstDifference(t *testing.T, pair Pair) []Op {
	t.Helper()
	differs := func(ops []Op) bool {
		difference, err := pair.Difference(ops)
		require.NoError(t, err, "%s", Script(ops))
		return difference != ""
	}
	for seed := uint64(1); seed < 1000; seed++ {
		if ops := Random(seed); differs(ops) {
			small := Shrink(ops, time.Now().Add(kit.Patience), differs)
			parsed, err := Parse(Script(small))
			require.NoError(t, err)
			require.Equal(t, Script(small), Script(parsed), "a script is read as it was written")
			require.True(t, differs(parsed))
			difference, err := pair.Difference(small)
			require.NoError(t, err)
			t.Logf("seed %d, %d operations of %d:\n%s%s", seed, len(small), len(ops), Script(small), difference)
			return small
		}
	}
	require.FailNow(t, "nobody notices")
	return nil
}

func TestTwoHonestServersAgree(t *testing.T) {
	pair := pairWith(t, startInProcess(t, never, zktest.V39))
	for seed := range uint64(200) {
		difference, err := pair.Difference(Random(seed))
		require.NoError(t, err)
		require.Empty(t, difference)
	}
}

func TestLiesAreFoundAndShrunk(t *testing.T) {
	for _, test := range []struct {
		lie    string
		change func(header jute.ReplyHeader, frame []byte) [][]byte
		most   int // operations in the shortest history
	}{
		{"an event is lost", func(h jute.ReplyHeader, frame []byte) [][]byte {
			if h.Xid == jute.XidNotification && frame[19] == byte(jute.EventNodeDeleted) {
				return nil
			}
			return [][]byte{frame}
		}, 3},
		{"an event comes twice", func(h jute.ReplyHeader, frame []byte) [][]byte {
			if h.Xid == jute.XidNotification {
				return [][]byte{frame, frame}
			}
			return [][]byte{frame}
		}, 2},
		{"an error is another", func(h jute.ReplyHeader, frame []byte) [][]byte {
			if h.Err == jute.CodeNotEmpty {
				h.Err = jute.CodeBadVersion
			}
			return [][]byte{withHeader(h, frame)}
		}, 4},
		{"a zxid is skipped in an answer", func(h jute.ReplyHeader, frame []byte) [][]byte {
			if h.Err == jute.CodeNoAuth {
				h.Zxid++
			}
			return [][]byte{withHeader(h, frame)}
		}, 4},
		{"a reply is longer", func(h jute.ReplyHeader, frame []byte) [][]byte {
			if h.Err == jute.CodeBadVersion {
				return [][]byte{append(slices.Clone(frame), 0)}
			}
			return [][]byte{frame}
		}, 3},
		{"a connection's xids are mixed up", func(h jute.ReplyHeader, frame []byte) [][]byte {
			if h.Xid == 20 {
				h.Xid++
			}
			return [][]byte{withHeader(h, frame)}
		}, 20},
	} {
		t.Run(test.lie, func(t *testing.T) {
			t.Parallel()
			small := firstDifference(t, pairWith(t, lying{startInProcess(t, never, zktest.V39), test.change}))
			assert.LessOrEqual(t, len(small), test.most, "%s", Script(small))
		})
	}
}

func TestEventBehindTheReplyIsFound(t *testing.T) {
	var late []byte
	small := firstDifference(t, pairWith(t, lying{startInProcess(t, never, zktest.V39), func(
		h jute.ReplyHeader, frame []byte,
	) [][]byte {
		if h.Xid == jute.XidNotification && late == nil {
			late = slices.Clone(frame)
			return nil
		}
		frames := [][]byte{frame}
		if late != nil {
			frames, late = append(frames, late), nil
		}
		return frames
	}}))
	assert.LessOrEqual(t, len(small), 2, "%s", Script(small))
}

// Two correct servers differ in ids, times and their first zxids, which does not count as a difference.
func TestRenamingIsNoDifference(t *testing.T) {
	ahead := startInProcess(t, never, zktest.V39)
	for range 1000 {
		require.NoError(t, ahead.Create("/busy", nil))
		require.NoError(t, ahead.Delete("/busy"))
	}
	pair := pairWith(t, lying{ahead, truth})
	for seed := range uint64(50) {
		difference, err := pair.Difference(Random(seed))
		require.NoError(t, err)
		require.Empty(t, difference)
	}
}

func TestServerThatErrsIsFoundAndShrunk(t *testing.T) {
	faulty := startInProcess(t, never, zktest.V39)
	faulty.Inject(zktest.Fault{Op: "setACL", PathPrefix: "/h/b", Times: -1, Action: zktest.ReplyError,
		Err: zktest.ErrAuthFailed})
	small := firstDifference(t, pairWith(t, faulty))
	require.Len(t, small, 1)
	assert.Equal(t, "setACL", small[0].Kind)
	assert.True(t, strings.HasPrefix(small[0].Path, "/h/b"))
}

// Versions of ZooKeeper differ, and so do their profiles.
func TestProfilesDiffer(t *testing.T) {
	for _, profile := range zktest.Profiles()[1:] {
		t.Run(profile.String(), func(t *testing.T) {
			t.Parallel()
			small := firstDifference(t, pairWith(t, startInProcess(t, never, profile)))
			assert.LessOrEqual(t, len(small), 6, "%s", Script(small))
		})
	}
}

func TestTimesOfOneTransactionAreOne(t *testing.T) {
	n := names{base: 10, sessions: map[int64]int{77: 3}, times: map[int64]int64{}}
	stat := jute.Stat{Czxid: 12, Mzxid: 13, Pzxid: 12, Ctime: 1000, Mtime: 1005, Version: 1, EphemeralOwner: 77}
	assert.Equal(t, "{c=z2 m=z3 p=z2 v=1 cv=0 av=0 owner=session 3 len=0 kids=0}", n.stat(stat))
	stat.Mtime = 1006
	assert.Contains(t, n.stat(stat), "mtime +1 ms", "the same transaction, another time")
	stat.Mzxid, stat.Mtime = 14, 1001
	assert.Contains(t, n.stat(stat), "mtime out of order with z3", "a later transaction, an earlier time")
}

func TestShrinkFindsTheTwoThatMatter(t *testing.T) {
	ops := make([]Op, 60)
	for i := range ops {
		ops[i] = Op{Kind: "exists", Path: fmt.Sprintf("/h/%d", i), More: true, Watch: true}
	}
	small := Shrink(ops, time.Now().Add(kit.Patience), func(candidate []Op) bool {
		first := slices.IndexFunc(candidate, func(op Op) bool { return op.Path == "/h/17" })
		second := slices.IndexFunc(candidate, func(op Op) bool { return op.Path == "/h/44" && op.Watch })
		return first >= 0 && second > first
	})
	assert.Equal(t, []Op{{Kind: "exists", Path: "/h/17"}, {Kind: "exists", Path: "/h/44", Watch: true}}, small)
}

func TestScriptsAreReadAsTheyWereWritten(t *testing.T) {
	for seed := range uint64(50) {
		for _, history := range []func(uint64) []Op{Random, RandomExpiry} {
			ops := history(seed)
			again, err := Parse(Script(ops))
			require.NoError(t, err)
			require.Equal(t, Script(ops), Script(again))
			require.Equal(t, Script(ops), Script(history(seed)), "a seed is a history")
		}
	}
	for script, complaint := range map[string]string{"x create": "line 1", "\n0 fly {}": `no operation "fly"`,
		"0": "is not", "0 create {\"pth\":\"/\"}": "pth"} {
		_, err := Parse(script)
		require.ErrorContains(t, err, complaint)
	}
}
