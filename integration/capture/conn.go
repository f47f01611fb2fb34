package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Operation codes, as in ZooKeeper's ZooDefs.OpCode.
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opGetACL          = 6
	opSetACL          = 7
	opGetChildren     = 8
	opSync            = 9
	opPing            = 11
	opGetChildren2    = 12
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCheckWatches    = 17
	opRemoveWatches   = 18
	opCreateContainer = 19
	opCreateTTL       = 21
	opMultiRead       = 22
	opAuth            = 100
	opSetWatches      = 101
	opSASL            = 102
	opGetEphemerals   = 103
	opAllChildren     = 104
	opSetWatches2     = 105
	opAddWatch        = 106
	opWhoAmI          = 107
	opCloseSession    = -11
)

// Reserved xids.
const (
	xidEvent      = -1
	xidPing       = -2
	xidAuth       = -4
	xidSetWatches = -8
)

const ioTimeout = 10 * time.Second

// session is a server's record of a client.
type session struct {
	id       int64
	password []byte
}

// conn is a connection that speaks the protocol frame by frame and, when it
// has a transcript, writes each one down.
type conn struct {
	t       testing.TB
	net     net.Conn
	log     *transcript // nil: not recorded
	session session
	xid     int32
	zxid    int64 // of the last reply
}

func dial(t testing.TB, addr string, log *transcript) *conn {
	t.Helper()
	n, err := net.DialTimeout("tcp", addr, ioTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return &conn{t: t, net: n, log: log}
}

func (c *conn) write(comment string, frame []byte) {
	c.t.Helper()
	c.log.add(comment, '>', frame)
	c.net.SetDeadline(time.Now().Add(ioTimeout))
	if _, err := c.net.Write(append(body{}.int(int32(len(frame))), frame...)); err != nil {
		c.t.Fatalf("%s: %v", comment, err)
	}
}

func (c *conn) read() ([]byte, error) {
	c.net.SetDeadline(time.Now().Add(ioTimeout))
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.net, head); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(c.net, frame)
	return frame, err
}

// connect shakes hands. previous is the zero session for a new one.
func (c *conn) connect(
	comment string, previous session, lastZxid int64, timeout time.Duration, readOnlyByte bool,
) {
	c.t.Helper()
	password := previous.password
	if password == nil {
		password = make([]byte, 16)
	}
	request := body{}.int(0).long(lastZxid).int(int32(timeout.Milliseconds())).long(previous.id).bytes(password)
	if readOnlyByte {
		request = request.bool(false)
	}
	c.write(comment, request)
	frame, err := c.read()
	if err != nil {
		c.t.Fatalf("%s: %v", comment, err)
	}
	c.session = session{int64(binary.BigEndian.Uint64(frame[8:])), frame[20:36]}
	c.log.knows(c.session)
	c.log.add(fmt.Sprintf("ConnectResponse, %d bytes", len(frame)), '<', frame)
}

// call sends a request and reads up to its reply. The test fails unless the reply carries the error code want;
// nothing may be recorded that was not understood. It returns the bytes after the reply header.
func (c *conn) call(want int32, name string, op int32, request body) []byte {
	c.t.Helper()
	c.xid++
	return c.callXid(want, name, c.xid, op, request)
}

func (c *conn) callXid(want int32, name string, xid, op int32, request body) []byte {
	c.t.Helper()
	c.write(fmt.Sprintf("%s: opcode %d, xid %d", name, op, xid), append(body{}.int(xid).int(op), request...))
	for {
		frame, err := c.read()
		if err != nil {
			c.t.Fatalf("%s: no reply: %v", name, err)
		}
		if c.note(frame) == xidEvent {
			continue
		}
		if got := int32(binary.BigEndian.Uint32(frame)); got != xid {
			c.t.Fatalf("%s: reply to xid %d, want %d", name, got, xid)
		}
		if got := int32(binary.BigEndian.Uint32(frame[12:])); got != want {
			c.t.Fatalf("%s: error code %d, want %d", name, got, want)
		}
		if zxid := int64(binary.BigEndian.Uint64(frame[4:])); zxid > 0 {
			c.zxid = zxid
		}
		return frame[16:]
	}
}

// event reads a frame that must be a watch event.
func (c *conn) event() {
	c.t.Helper()
	frame, err := c.read()
	if err != nil {
		c.t.Fatalf("no event: %v", err)
	}
	if xid := c.note(frame); xid != xidEvent {
		c.t.Fatalf("xid %d, want an event", xid)
	}
}

// note writes a frame from the server down and returns its xid.
func (c *conn) note(frame []byte) int32 {
	c.t.Helper()
	if len(frame) < 16 {
		c.t.Fatalf("a frame of %d bytes has no reply header", len(frame))
	}
	xid := int32(binary.BigEndian.Uint32(frame))
	comment := fmt.Sprintf("reply to xid %d: error code %d, %d bytes follow the header", xid,
		int32(binary.BigEndian.Uint32(frame[12:])), len(frame)-16)
	if xid == xidEvent {
		comment = fmt.Sprintf("event: type %d, state %d, path %s", int32(binary.BigEndian.Uint32(frame[16:])),
			int32(binary.BigEndian.Uint32(frame[20:])), frame[28:])
	}
	c.log.add(comment, '<', frame)
	return xid
}

// closedByServer fails the test unless the server closes the connection now.
func (c *conn) closedByServer() {
	c.t.Helper()
	if frame, err := c.read(); !errors.Is(err, io.EOF) && !isReset(err) {
		c.t.Fatalf("the connection should be closed, got a frame of %d bytes, %v", len(frame), err)
	}
	c.log.remark("the server closes the connection")
}

func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "reset by peer") }

// closeSession ends the session, so that no later expiry disturbs the zxids of
// other recordings.
func (c *conn) closeSession() {
	c.t.Helper()
	c.call(0, "closeSession", opCloseSession, nil)
	c.net.Close()
}
