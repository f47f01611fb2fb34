package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// A server can be broken or hostile, and others share the network to it. So no frame is trusted: what an
// answer is for, and how large that may be, is known before its body is read; and what goes to the library,
// which believes every count, has passed jute.CheckReply.
const (
	// defaultMaxReply bounds an answer with data or a list: half a million children with names of sixty bytes.
	defaultMaxReply = 32 << 20
	// maxPlain bounds all other answers, not counting a path, and those of the handshake: a header of 16 bytes,
	// a Stat of 68, a session's password.
	maxPlain = 4 << 10
	// maxPath is the longest path that is believed, unless MaxFrame is larger: a node was created by a request
	// with the path in it, and a server takes requests of a MiB, its jute.maxbuffer.
	maxPath = 1 << 20
	// libBacklog is how many bytes the library may be behind with events. It gets them all again after a
	// reconnect.
	libBacklog = 16 << 20
)

// Reasons to end a connection, all of them ErrProtocol.
var (
	errUnasked  = fmt.Errorf("%w: an answer to nothing that was asked", ErrProtocol)
	errOversize = fmt.Errorf("%w: a frame larger than it can be", ErrProtocol)
	errNoPath   = fmt.Errorf("%w: an event for what is no path", ErrProtocol)
)

var errSwamped = errors.New("the library does not keep up with the watch events")

// incoming is a frame that comes after the handshake.
type incoming struct {
	head    jute.ReplyHeader
	body    []byte
	skipped int // the frame's size, if that is more than is allowed: there is no body then
}

// receive reads a frame. An answer that is too large is skipped, and the connection goes on, if nobody could
// know its size beforehand.
func (l *link) receive() (in incoming, err error) {
	var b [4 + replyHeaderSize]byte
	if _, err := io.ReadFull(l.in, b[:4]); err != nil {
		return in, err
	}
	size := int(int32(binary.BigEndian.Uint32(b[:])))
	if size < 0 {
		return in, notZooKeeper([4]byte(b[:]), l.s.cfg.MaxReply)
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
	most, anySize, err := l.limit(in.head.Xid)
	l.in.expect(size - replyHeaderSize)
	defer l.in.expect(0)
	switch {
	case err != nil:
		return in, err
	case size <= most:
		in.body, err = readBody(l.in, size-replyHeaderSize)
	case anySize:
		in.skipped = size
		_, err = l.in.Discard(size - replyHeaderSize)
	default:
		err = fmt.Errorf("%w: %d bytes, at most %d", errOversize, size, most)
	}
	return in, err
}

// limit is how large a frame with this xid may be. anySize says that it answers with data or a list, whose
// size nobody knows beforehand.
func (l *link) limit(xid int32) (most int, anySize bool, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var op int32
	switch {
	case xid == jute.XidNotification:
		return maxPlain + s.cfg.longestPath(), false, nil
	case xid >= 0:
		q, known := l.library.asked[xid]
		if !known {
			return 0, false, errUnasked
		}
		op = q.op
	case xid < firstXid:
		c := s.calls.find(xid)
		switch {
		case s.links.live != l: // the session has ended, and this connection with it
			return 0, false, ErrClosed
		case c == nil:
			return 0, false, errUnasked
		}
		op = c.Op
	default:
		return maxPlain, false, nil
	}
	if returnsList(op) {
		return s.cfg.MaxReply, true, nil
	}
	return min(maxPlain+s.cfg.longestPath(), s.cfg.MaxReply), false, nil
}

// returnsList says whether op answers with data or a list.
func returnsList(op int32) bool {
	switch op {
	case jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpMulti, jute.OpMultiRead,
		jute.OpReconfig, jute.OpGetEphemerals, jute.OpWhoAmI:
		return true
	}
	return false
}

func (cfg *Config) longestPath() int { return max(maxPath, cfg.MaxFrame) }

// checkPath refuses what is no server's path of a node, whatever its version. It does not look at characters:
// versions disagree about them.
func (cfg *Config) checkPath(path string) error {
	most := cfg.longestPath()
	switch {
	case len(path) > most:
		return fmt.Errorf("%w: it has %d bytes, at most %d", errNoPath, len(path), most)
	case path == "/":
		return nil
	case path == "" || path[0] != '/' || path[len(path)-1] == '/' || strings.Contains(path, "//") ||
		strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("%w: %.100q", errNoPath, path)
	}
	return nil
}
