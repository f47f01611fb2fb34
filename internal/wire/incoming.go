package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// A server can be broken or hostile, and is behind nothing but a line that others share. So no frame is taken for what it says about itself: what an answer
// answers, and how large that may be, is known before its body is read; and what goes to the library, which believes every count, has passed a check of ours.
const (
	// defaultMaxReply is what an answer with data or a list may have: half a million children with names of sixty bytes.
	defaultMaxReply = 32 << 20
	// maxPlain is what all others may have besides a path, in the handshake too: a header of 16 bytes, a Stat of 68, a session's password.
	maxPlain = 4 << 10
	// maxPath is the longest path that is believed, unless MaxFrame is larger: a node was created by a request, the path was in it, and a server takes requests
	// of a MiB, its jute.maxbuffer.
	maxPath = 1 << 20
	// libBacklog is how many bytes the library may be behind with events. It gets them all again after a reconnect.
	libBacklog = 16 << 20
)

// What ends a connection, all of it ErrProtocol.
var (
	errUnasked  = fmt.Errorf("%w: an answer to nothing that was asked", ErrProtocol)
	errOversize = fmt.Errorf("%w: a frame larger than it can be", ErrProtocol)
	errNoPath   = fmt.Errorf("%w: an event for what is no path", ErrProtocol)
)

var errSwamped = errors.New("the library does not keep up with the watch events")

// incoming is a frame behind the handshake.
type incoming struct {
	head    jute.ReplyHeader
	body    []byte
	skipped int // the frame's size, where that was more than is allowed: there is no body then
}

// receive reads a frame. An answer that is too large and may have had to be, for what was asked, is read past: the connection goes on.
func (l *link) receive() (in incoming, err error) {
	var b [4 + replyHeaderSize]byte
	if _, err := io.ReadFull(l.in, b[:4]); err != nil {
		return in, err
	}
	size := int(int32(binary.BigEndian.Uint32(b[:])))
	if size < 0 {
		return in, stranger([4]byte(b[:]), l.s.cfg.MaxReply)
	}
	if size < replyHeaderSize {
		return in, fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, size)
	}
	if _, err := io.ReadFull(l.in, b[4:]); err != nil {
		return in, err
	}
	if err := jute.Unmarshal(b[4:], &in.head); err != nil {
		return in, err
	}
	most, list, err := l.most(in.head.Xid)
	l.in.expect(size - replyHeaderSize)
	defer l.in.expect(0)
	switch {
	case err != nil:
		return in, err
	case size <= most:
		in.body, err = readBody(l.in, size-replyHeaderSize)
	case list:
		in.skipped = size
		_, err = l.in.Discard(size - replyHeaderSize)
	default:
		err = fmt.Errorf("%w: %d bytes, at most %d", errOversize, size, most)
	}
	return in, err
}

// most is how large a frame with this xid may be. list says that it may answer with data or a list, which nobody can know the size of before.
func (l *link) most(xid int32) (most int, list bool, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var op int32
	switch {
	case xid == jute.XidNotification:
		return maxPlain + s.longestPath(), false, nil
	case xid >= 0:
		q, known := l.asked[xid]
		if !known {
			return 0, false, errUnasked
		}
		op = q.op
	case xid < firstXid:
		switch c := s.byXid[xid]; {
		case s.link != l: // the session has ended, and this connection with it
			return 0, false, ErrClosed
		case c == nil:
			return 0, false, errUnasked
		default:
			op = c.Op
		}
	default:
		return maxPlain, false, nil
	}
	if list = listing(op); list {
		return s.cfg.MaxReply, true, nil
	}
	return min(maxPlain+s.longestPath(), s.cfg.MaxReply), false, nil
}

// listing says whether op answers with data or a list.
func listing(op int32) bool {
	switch op {
	case jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpMulti, jute.OpMultiRead, jute.OpReconfig, jute.OpGetEphemerals, jute.OpWhoAmI:
		return true
	}
	return false
}

func (s *Session) longestPath() int { return max(maxPath, s.cfg.MaxFrame) }

// checkPath refuses what is no server's path of a node, whatever its version: it says nothing of characters, of which they had different opinions.
func (s *Session) checkPath(path string) error {
	most := s.longestPath()
	switch {
	case len(path) > most:
		return fmt.Errorf("%w: it has %d bytes, at most %d", errNoPath, len(path), most)
	case path == "/":
		return nil
	case path == "" || path[0] != '/' || path[len(path)-1] == '/' || strings.Contains(path, "//") || strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("%w: %.100q", errNoPath, path)
	}
	return nil
}
