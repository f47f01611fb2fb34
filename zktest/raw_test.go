package zktest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// raw is a client that sends and reads frames, one request at a time.
type raw struct {
	t      testing.TB
	nc     net.Conn
	xid    int32
	hello  jute.ConnectResponse
	events []jute.WatcherEvent // read while waiting for replies
}

// reply is a reply's header and body.
type reply struct {
	jute.ReplyHeader
	body []byte
}

func (r reply) into(t testing.TB, rec jute.Record) {
	t.Helper()
	require.Equal(t, int32(0), r.Err, "error code")
	require.NoError(t, jute.Unmarshal(r.body, rec))
}

// dialRaw connects without a handshake.
func dialRaw(t testing.TB, s *Server) *raw {
	t.Helper()
	nc, err := s.Dial(context.Background(), "tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	return &raw{t: t, nc: nc}
}

// newRaw connects with a new session.
func newRaw(t testing.TB, s *Server, timeout time.Duration) *raw {
	t.Helper()
	c := dialRaw(t, s)
	req := &jute.ConnectRequest{Timeout: int32(timeout.Milliseconds()), Password: make([]byte, 16)}
	req.HasReadOnly = true
	require.NoError(t, c.shake(req))
	require.NotZero(t, c.hello.SessionID)
	return c
}

// resume returns a handshake for c's session.
func (c *raw) resume(timeout int32) *jute.ConnectRequest {
	return &jute.ConnectRequest{
		Timeout: timeout, SessionID: c.hello.SessionID, Password: c.hello.Password,
	}
}

// onlyReading returns a handshake that accepts a member without a quorum.
func onlyReading(timeout int32) *jute.ConnectRequest {
	return &jute.ConnectRequest{Timeout: timeout, HasReadOnly: true, ReadOnly: true}
}

// again attaches to c's session on a new connection.
func (c *raw) again(s *Server) *raw {
	c.t.Helper()
	n := dialRaw(c.t, s)
	n.xid = c.xid
	req := c.resume(c.hello.Timeout)
	req.HasReadOnly = true
	require.NoError(c.t, n.shake(req))
	return n
}

func (c *raw) shake(req *jute.ConnectRequest) error {
	c.t.Helper()
	c.write(jute.Frame(req))
	frame, err := c.frame()
	if err != nil {
		return err
	}
	return jute.Unmarshal(frame, &c.hello)
}

func (c *raw) write(b []byte) {
	c.t.Helper()
	_, err := c.nc.Write(b)
	require.NoError(c.t, err)
}

func (c *raw) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.nc, frame)
	return frame, err
}

// send writes a request and returns its xid.
func (c *raw) send(op int32, recs ...jute.Record) int32 {
	c.t.Helper()
	c.xid++
	xid := c.xid
	switch op {
	case jute.OpPing:
		xid = jute.XidPing
	case jute.OpAuth:
		xid = jute.XidAuth
	}
	c.write(jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: xid, Op: op}}, recs...)...))
	return xid
}

// recv reads the next reply; events before it are kept.
func (c *raw) recv() (reply, error) {
	for {
		frame, err := c.frame()
		if err != nil {
			return reply{}, err
		}
		d := jute.NewDecoder(frame)
		var r reply
		r.Fields(d)
		if r.Xid != jute.XidNotification {
			r.body = d.Rest()
			return r, d.Err()
		}
		var e jute.WatcherEvent
		e.Fields(d)
		require.NoError(c.t, d.Err())
		c.events = append(c.events, e)
	}
}

func (c *raw) call(op int32, recs ...jute.Record) reply {
	c.t.Helper()
	xid := c.send(op, recs...)
	r, err := c.recv()
	require.NoError(c.t, err)
	require.Equal(c.t, xid, r.Xid)
	return r
}

// code returns the error code of a call.
func (c *raw) code(op int32, recs ...jute.Record) Error {
	c.t.Helper()
	return Error(c.call(op, recs...).Err)
}

// heard pings, so that all earlier events are read, and returns each event as "type path".
func (c *raw) heard() []string {
	c.t.Helper()
	c.call(jute.OpPing)
	var heard []string
	for _, e := range c.events {
		heard = append(heard, eventName(e.Type)+" "+e.Path)
	}
	c.events = nil
	return heard
}

func (c *raw) create(path string, flags int32) string {
	c.t.Helper()
	var res jute.Create2Response
	c.call(jute.OpCreate2, mk(path, flags)).into(c.t, &res)
	return res.Path
}

// closed waits for the end of the connection.
func (c *raw) closed() {
	c.t.Helper()
	for {
		if _, err := c.recv(); err != nil {
			require.ErrorIs(c.t, err, io.EOF)
			return
		}
	}
}

func mk(path string, flags int32) *jute.CreateRequest {
	return &jute.CreateRequest{Path: path, Data: []byte("d"), ACL: openACL, Flags: flags}
}

func at(path string) *jute.PathWatchRequest { return &jute.PathWatchRequest{Path: path} }
func watch(path string) *jute.PathWatchRequest {
	return &jute.PathWatchRequest{Path: path, Watch: true}
}
func rm(path string) *jute.PathVersionRequest {
	return &jute.PathVersionRequest{Path: path, Version: -1}
}
func put(path, data string) *jute.SetDataRequest {
	return &jute.SetDataRequest{Path: path, Data: []byte(data), Version: -1}
}
