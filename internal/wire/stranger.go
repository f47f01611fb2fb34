package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// errStranger is about somebody else who listens where a server is expected.
var errStranger = errors.New("that is not ZooKeeper's protocol")

// stranger says who it is, by the first bytes, which would be the length of a frame.
func stranger(head [4]byte, limit int) error {
	text := string(head[:])
	switch {
	case text == "HTTP":
		return fmt.Errorf("%w: a web server answers: is it the port of the AdminServer, or a proxy's?", errStranger)
	case (head[0] == 0x15 || head[0] == 0x16) && head[1] == 3: // an alert, or a handshake
		return fmt.Errorf("%w: the server speaks TLS: is it its secureClientPort?", errStranger)
	case !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("%w: the answer begins with %q", errStranger, text)
	}
	return fmt.Errorf("%w: the answer begins with % x, which would be a frame of more than %d bytes", errStranger, head, limit)
}

// hungUp says that it was the other side who ended a connection.
func hungUp(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

const (
	// suspect is how large a request must be at least for its size to be a reason to close the connection,
	suspect = 16 << 10
	// and suspectTime how soon the end comes then: the server reads no more of it than its length.
	suspectTime = 2 * time.Second
)

// suspicious returns the largest of the requests that are under way, if it may be that which made the server end the connection: a server answers a
// request above its jute.maxbuffer by nothing else. nil if none is large. Session.mu is held.
func (s *Session) suspicious(l *link, err error) (largest *Call) {
	if !hungUp(err) && !l.broken.Load() || errors.Is(err, net.ErrClosed) {
		return nil
	}
	for _, c := range s.byXid {
		if len(c.Body) >= suspect && elapsed(c.sent, now()) <= suspectTime && (largest == nil || len(c.Body) > len(largest.Body)) {
			largest = c
		}
	}
	return largest
}
