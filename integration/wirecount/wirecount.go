// Package wirecount counts the requests that reach a server, so that a test can check the cost of an operation.
//
// It reads the frames of the protocol, independently of any client: every request counts that the server has to
// answer. A request is counted before the server sees it, so once its reply is there it has been counted.
package wirecount

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-curator/curator/integration/proxy"
)

// Request is one frame from a client.
type Request struct {
	Conn int // number of the connection, from 1
	Xid  int32
	Op   Op
	// Path is the path at the start of the request; empty if it starts with something else, as a multi does.
	Path string
}

// Requests are in the order of their arrival.
type Requests []Request

// Counts returns the number of requests of each operation.
func (r Requests) Counts() map[Op]int {
	counts := map[Op]int{}
	for _, request := range r {
		counts[request.Op]++
	}
	return counts
}

// Without leaves some operations out, as in Without(Ping).
func (r Requests) Without(ops ...Op) Requests {
	return slices.DeleteFunc(slices.Clone(r),
		func(request Request) bool { return slices.Contains(ops, request.Op) })
}

// Ops are the operations in order.
func (r Requests) Ops() []Op {
	ops := []Op{}
	for _, request := range r {
		ops = append(ops, request.Op)
	}
	return ops
}

// String lists the requests, for the message of a failed test.
func (r Requests) String() string {
	var lines []string
	for _, request := range r {
		line := strconv.Itoa(request.Conn) + ": " + request.Op.String() + " " + request.Path
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// Counter is a proxy that counts. All its methods are safe for concurrent use, except where the proxy's documentation
// states otherwise.
type Counter struct {
	*proxy.Proxy

	mu       sync.Mutex
	requests Requests
}

// Start puts a counter in front of the server at target. It ends with the
// test.
func Start(t testing.TB, target string) *Counter {
	t.Helper()
	c := &Counter{}
	c.Proxy = proxy.NewTapped(t, target, func(conn int) (toServer, toClient func([]byte)) {
		f := &framer{conn: conn, count: c.add}
		return f.read, nil
	})
	return c
}

// Requests are all requests since the start.
func (c *Counter) Requests() Requests {
	return c.Since(0)
}

// Mark is a position for Since: the number of requests up to now.
func (c *Counter) Mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.requests)
}

// Since are the requests after a Mark.
func (c *Counter) Since(mark int) Requests {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests[mark:])
}

func (c *Counter) add(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
}

// framer cuts a client's bytes into frames.
type framer struct {
	conn      int
	count     func(Request)
	buffer    []byte
	connected bool
	foreign   bool // not the protocol: a four-letter command
}

// longest is more than any server takes; a length beyond it is text.
const longest = 1 << 28

func (f *framer) read(chunk []byte) {
	if f.foreign {
		return
	}
	f.buffer = append(f.buffer, chunk...)
	for len(f.buffer) >= 4 {
		length := binary.BigEndian.Uint32(f.buffer)
		if length > longest {
			f.foreign, f.buffer = true, nil
			return
		}
		if uint32(len(f.buffer)-4) < length {
			return
		}
		f.frame(f.buffer[4 : 4+length])
		f.buffer = f.buffer[4+length:]
	}
}

func (f *framer) frame(frame []byte) {
	request := Request{Conn: f.conn, Op: Connect}
	switch {
	case !f.connected:
		f.connected = true
	case len(frame) < 8:
		return
	default:
		request.Xid = int32(binary.BigEndian.Uint32(frame))
		request.Op = Op(binary.BigEndian.Uint32(frame[4:]))
		request.Path = path(frame[8:])
	}
	f.count(request)
}

// path is the string at the beginning of a body, if it looks like one.
func path(body []byte) string {
	if len(body) < 5 || body[4] != '/' {
		return ""
	}
	length := binary.BigEndian.Uint32(body)
	if length > uint32(len(body)-4) {
		return ""
	}
	return string(body[4 : 4+length])
}
