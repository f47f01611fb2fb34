package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// loose is a libConn with a link that goes nowhere, of a session that does not run.
func loose(t *testing.T) (*libConn, *link) {
	end, other := net.Pipe()
	t.Cleanup(func() { end.Close(); other.Close() })
	s := &Session{cfg: Config{Limits: Limits{MaxFrame: 100, MaxReply: 1000}, Timeout: time.Second},
		validity: newValidity(always(Servers{Alone: true}), time.Second),
		identity: identity{id: 7}, calls: newCalls(), watches: newRegistry()}
	l := s.newLink(&attempt{conn: end}, false)
	s.links.add(l)
	l.library.conn = newLibConn(s, l)
	return l.library.conn, l
}

func helloFrame(id int64) []byte {
	return jute.Frame(&jute.ConnectRequest{SessionID: id, Password: make([]byte, 16)})
}

func requestFrame(xid, op int32, records ...jute.Record) []byte {
	return jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: xid, Op: op}}, records...)...)
}

func TestLibConnSplitsFramesHoweverTheyAreWritten(t *testing.T) {
	c, l := loose(t)
	var all, want []byte
	all = append(all, helloFrame(0)...)
	for xid := range int32(20) {
		f := requestFrame(xid, jute.OpGetData, read("/a"))
		all, want = append(all, f...), append(want, f...)
	}
	for i := range all { // one byte at a time
		n, err := c.Write(all[i : i+1])
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	assert.Equal(t, want, l.output.buf, "the connect request stays here")

	c, l = loose(t)
	n, err := c.Write(all)
	require.NoError(t, err)
	require.Equal(t, len(all), n)
	assert.Equal(t, want, l.output.buf)
}

func TestLibConnKeepsThePingsOfTheLibrary(t *testing.T) {
	c, l := loose(t)
	_, err := c.Write(append(helloFrame(0), requestFrame(jute.XidPing, jute.OpPing)...))
	require.NoError(t, err)
	assert.Empty(t, l.output.buf)
}

func TestLibConnRefusesAForeignSession(t *testing.T) {
	c, l := loose(t)
	_, err := c.Write(helloFrame(8))
	require.Error(t, err)
	<-l.end.ctx.Done()
	for _, own := range []int64{0, 7} {
		c, l = loose(t)
		_, err = c.Write(helloFrame(own))
		require.NoError(t, err)
		select {
		case <-l.end.ctx.Done():
			t.Fatal("closed")
		default:
		}
	}
}

func TestLibConnNeverFailsAWrite(t *testing.T) {
	c, l := loose(t)
	_, err := c.Write(helloFrame(0))
	require.NoError(t, err)
	l.close(io.ErrUnexpectedEOF)
	c.fail(io.ErrUnexpectedEOF)
	for _, frame := range [][]byte{requestFrame(1, jute.OpGetData, read("/")), {0, 0, 0, 0},
		{0, 0, 0, 3, 1, 2, 3}} {
		n, err := c.Write(frame)
		require.NoError(t, err)
		require.Equal(t, len(frame), n)
	}
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.Write(requestFrame(2, jute.OpGetData, read("/")))
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now()))
	require.NoError(t, c.SetReadDeadline(time.Now()))
	require.NoError(t, c.SetWriteDeadline(time.Now()))
	_, err = c.Write(requestFrame(3, jute.OpGetData, read("/")))
	require.NoError(t, err, "deadlines do not count")
	assert.NotEmpty(t, c.LocalAddr().String())
	assert.NotEmpty(t, c.RemoteAddr().Network())
}

func frameOf(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var h [4]byte
	_, err := io.ReadFull(r, h[:])
	require.NoError(t, err)
	b := make([]byte, binary.BigEndian.Uint32(h[:]))
	_, err = io.ReadFull(r, b)
	require.NoError(t, err)
	return b
}

func replyOf(t *testing.T, r io.Reader) (h jute.ReplyHeader) {
	t.Helper()
	require.NoError(t, jute.Unmarshal(frameOf(t, r), &h))
	return h
}

func TestLibConnAgreesToEverythingAfterTheEnd(t *testing.T) {
	c, _ := loose(t)
	_, err := c.Write(helloFrame(0))
	require.NoError(t, err)
	c.retire()
	for xid, op := range []int32{jute.OpGetData, jute.OpSetWatches, jute.OpMulti} {
		_, err = c.Write(requestFrame(int32(xid), op))
		require.NoError(t, err)
		assert.Equal(t, jute.ReplyHeader{Xid: int32(xid), Err: jute.CodeSessionExpired}, replyOf(t, c))
	}
	for _, op := range []int32{jute.OpAuth, jute.OpCloseSession} {
		_, err = c.Write(requestFrame(9, op))
		require.NoError(t, err)
		assert.Equal(t, jute.ReplyHeader{Xid: 9}, replyOf(t, c))
	}
}

// The library waits for the answer to closeSession without limit, and only libConn may be left to give it.
func TestLibConnAnswersAFarewellThatNobodyElseCan(t *testing.T) {
	for _, dead := range []bool{false, true} {
		c, l := loose(t)
		_, err := c.Write(helloFrame(0))
		require.NoError(t, err)
		if dead { // and that is not known here yet
			l.s.links.live = nil
		}
		_, err = c.Write(requestFrame(3, jute.OpCloseSession))
		require.NoError(t, err)
		c.retire()
		assert.Equal(t, jute.ReplyHeader{Xid: 3}, replyOf(t, c))
	}
}

func TestLibConnAnswersWhatIsTooLarge(t *testing.T) {
	c, l := loose(t)
	_, err := c.Write(append(helloFrame(0),
		requestFrame(1, jute.OpSetData, &jute.SetDataRequest{Path: "/a", Data: make([]byte, 200)})...))
	require.NoError(t, err)
	assert.Equal(t, jute.CodeMarshallingError, replyOf(t, c).Err)
	assert.Empty(t, l.output.buf)
}

// The library writes down the zxid of a reply while it may be reading it for its watches. It is spared that:
// the tap puts in what is right.
func TestTheLibraryLearnsNoZxids(t *testing.T) {
	c, l := loose(t)
	ours, theirs := net.Pipe()
	defer ours.Close()
	l.in, l.library.asked = newMeter(ours), map[int32]asked{3: {op: jute.OpSync}}
	go func() {
		defer theirs.Close()
		_, _ = theirs.Write(jute.Frame(&jute.ReplyHeader{Xid: 3, Zxid: 99, Err: jute.CodeNoNode},
			&jute.PathRequest{Path: "/a"}))
	}()
	require.ErrorIs(t, l.read(), io.EOF)
	assert.Equal(t, jute.Marshal(&jute.ReplyHeader{Xid: 3, Err: jute.CodeNoNode}), frameOf(t, c))
	assert.EqualValues(t, 99, l.s.MaxZxid())
}

func TestLibConnReadsInAnyPortions(t *testing.T) {
	c, _ := loose(t)
	c.deliver(&jute.ReplyHeader{Xid: 5})
	one := make([]byte, 1)
	for range 4 + 16 {
		n, err := c.Read(one)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	why := errors.New("why")
	c.deliver(&jute.ReplyHeader{Xid: 6})
	c.fail(why)
	c.fail(io.EOF)
	assert.EqualValues(t, 6, replyOf(t, c).Xid, "what was delivered is read first")
	_, err := c.Read(one)
	assert.Equal(t, why, err, "the first reason counts")
}

func TestLibConnReadWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := loose(t)
		got := make(chan error, 2)
		go func() {
			_, err := c.Read(make([]byte, 20))
			got <- err
			_, err = c.Read(make([]byte, 20))
			got <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, got)
		c.deliver(&jute.ReplyHeader{Xid: 1})
		require.NoError(t, <-got)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-got, net.ErrClosed)
	})
}
