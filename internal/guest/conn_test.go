package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// session is a session whose only connection, number 1, leads nowhere.
type session struct {
	answer func(jute.RequestHeader) // called for each request, if set

	mu     sync.Mutex
	output []byte // the requests that were forwarded
	why    error  // why the connection has ended
}

func (s *session) ID() int64      { return 7 }
func (s *session) Server() string { return "one:2181" }
func (s *session) Go(f func())    { go f() }

func (s *session) WithConnection(f func(number uint64, server string, timeout time.Duration, id int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		f(1, "one:2181", time.Second, 7)
	}
}

func (s *session) Forward(number uint64, h jute.RequestHeader, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil || number != 1 {
		return false
	}
	s.output = append(s.output, jute.Frame(&h, rawRecord(body))...)
	if s.answer != nil {
		s.answer(h)
	}
	return true
}

func (s *session) Disconnect(number uint64, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil && number == 1 {
		s.why = why
	}
}

func (s *session) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// loose returns the connection of a library that does not run.
func loose(t *testing.T) (*libraryConn, *session) {
	t.Helper()
	s := &session{}
	g := New(s, Config{MaxFrame: 100, Timeout: time.Second})
	taken, err := g.takeConn("one:2181")
	require.NoError(t, err)
	c := taken.(*libraryConn)
	require.NotEmpty(t, frameOf(t, c), "the answer to its connect request")
	return c, s
}

func helloFrame(id int64) []byte {
	return jute.Frame(&jute.ConnectRequest{SessionID: id, Password: make([]byte, 16)})
}

func requestFrame(xid, op int32, records ...jute.Record) []byte {
	return jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: xid, Op: op}}, records...)...)
}

func TestLibConnSplitsFramesHoweverTheyAreWritten(t *testing.T) {
	c, s := loose(t)
	var all, want []byte
	all = append(all, helloFrame(0)...)
	for xid := range int32(20) {
		f := requestFrame(xid, jute.OpGetData, &jute.PathWatchRequest{Path: "/a"})
		all, want = append(all, f...), append(want, f...)
	}
	for i := range all { // one byte at a time
		n, err := c.Write(all[i : i+1])
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	assert.Equal(t, want, s.output, "the connect request stays here")

	c, s = loose(t)
	n, err := c.Write(all)
	require.NoError(t, err)
	require.Equal(t, len(all), n)
	assert.Equal(t, want, s.output)
}

func TestLibConnKeepsThePingsOfTheLibrary(t *testing.T) {
	c, s := loose(t)
	_, err := c.Write(append(helloFrame(0), requestFrame(jute.XidPing, jute.OpPing)...))
	require.NoError(t, err)
	assert.Empty(t, s.output)
}

func TestLibConnRefusesAForeignSession(t *testing.T) {
	c, s := loose(t)
	_, err := c.Write(helloFrame(8))
	require.Error(t, err)
	require.Error(t, s.err())
	for _, own := range []int64{0, 7} {
		c, s = loose(t)
		_, err = c.Write(helloFrame(own))
		require.NoError(t, err)
		require.NoError(t, s.err(), "the connection goes on")
	}
}

func TestLibConnNeverFailsAWrite(t *testing.T) {
	c, s := loose(t)
	_, err := c.Write(helloFrame(0))
	require.NoError(t, err)
	s.Disconnect(1, io.ErrUnexpectedEOF)
	c.failReads(io.ErrUnexpectedEOF)
	for _, frame := range [][]byte{requestFrame(1, jute.OpGetData, &jute.PathWatchRequest{Path: "/"}), {0, 0, 0, 0},
		{0, 0, 0, 3, 1, 2, 3}} {
		n, err := c.Write(frame)
		require.NoError(t, err)
		require.Equal(t, len(frame), n)
	}
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.Write(requestFrame(2, jute.OpGetData, &jute.PathWatchRequest{Path: "/"}))
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now()))
	require.NoError(t, c.SetReadDeadline(time.Now()))
	require.NoError(t, c.SetWriteDeadline(time.Now()))
	_, err = c.Write(requestFrame(3, jute.OpGetData, &jute.PathWatchRequest{Path: "/"}))
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
	c.retireConn()
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

// The library waits for the reply to closeSession without limit. When the session's connection has ended, only libConn is
// left to send that reply.
func TestLibConnAnswersAFarewellThatNobodyElseCan(t *testing.T) {
	for _, dead := range []bool{false, true} {
		c, s := loose(t)
		_, err := c.Write(helloFrame(0))
		require.NoError(t, err)
		if dead { // the library's connection has not learnt of it yet
			s.Disconnect(1, io.EOF)
		}
		_, err = c.Write(requestFrame(3, jute.OpCloseSession))
		require.NoError(t, err)
		c.retireConn()
		assert.Equal(t, jute.ReplyHeader{Xid: 3}, replyOf(t, c))
	}
}

func TestLibConnAnswersWhatIsTooLarge(t *testing.T) {
	c, s := loose(t)
	_, err := c.Write(append(helloFrame(0),
		requestFrame(1, jute.OpSetData, &jute.SetDataRequest{Path: "/a", Data: make([]byte, 200)})...))
	require.NoError(t, err)
	assert.Equal(t, jute.CodeMarshallingError, replyOf(t, c).Err)
	assert.Empty(t, s.output)
}

// The library would store a reply's zxid while another of its goroutines reads it for the watches. So libConn passes it no
// zxids: the session puts the right one into the requests.
func TestTheLibraryLearnsNoZxids(t *testing.T) {
	c, _ := loose(t)
	_, err := c.Write(append(helloFrame(0), requestFrame(3, jute.OpSync, &jute.PathRequest{Path: "/a"})...))
	require.NoError(t, err)
	op, known := c.guest.OperationOf(1, 3)
	assert.True(t, known)
	assert.Equal(t, jute.OpSync, op)
	body := jute.Marshal(&jute.PathRequest{Path: "/a"})
	require.NoError(t, c.guest.DeliverReply(1, jute.ReplyHeader{Xid: 3, Zxid: 99, Err: jute.CodeNoNode}, body, false))
	assert.Equal(t, jute.Marshal(&jute.ReplyHeader{Xid: 3, Err: jute.CodeNoNode}), frameOf(t, c))
	_, known = c.guest.OperationOf(1, 3)
	assert.False(t, known, "nothing is left to be remembered")
	assert.Empty(t, c.inFlight)
}

// A request's number on an earlier connection has nothing to do with this connection.
func TestTheLibraryHasAskedOnOneConnectionOnly(t *testing.T) {
	c, _ := loose(t)
	_, err := c.Write(append(helloFrame(0), requestFrame(3, jute.OpSync, &jute.PathRequest{Path: "/a"})...))
	require.NoError(t, err)
	_, known := c.guest.OperationOf(2, 3)
	assert.False(t, known)
}

func TestLibConnReadsInAnyPortions(t *testing.T) {
	c, _ := loose(t)
	c.deliverFrame(&jute.ReplyHeader{Xid: 5})
	one := make([]byte, 1)
	for range 4 + 16 {
		n, err := c.Read(one)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	why := errors.New("why")
	c.deliverFrame(&jute.ReplyHeader{Xid: 6})
	c.failReads(why)
	c.failReads(io.EOF)
	assert.EqualValues(t, 6, replyOf(t, c).Xid, "what was delivered is read first")
	_, err := c.Read(one)
	assert.Equal(t, why, err, "the first reason counts")
}

func TestLibConnReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		c.deliverFrame(&jute.ReplyHeader{Xid: 1})
		require.NoError(t, <-got)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-got, net.ErrClosed)
	})
}
