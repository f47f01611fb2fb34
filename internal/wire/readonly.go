package wire

import (
	"context"
	"io"
	"time"
)

const (
	// seekFrom and seekUpTo bound the pauses between two attempts to find a member with a quorum.
	seekFrom = time.Second
	seekUpTo = 15 * time.Second
)

// seekQuorum looks for a member with a quorum while this one has none, one member at a time, and ends the
// link when it has found one.
func (l *link) seekQuorum() {
	for wait := seekFrom; sleep(l.end.ctx, wait); wait = min(2*wait, seekUpTo) {
		server := l.s.hosts.another(l.server)
		if server != "" && l.s.hasQuorum(l.end.ctx, server) {
			l.s.hosts.prefer(server)
			l.close(errQuorumFound)
			return
		}
	}
}

// hasQuorum asks a member by the four-letter word that every server that can be read-only answers.
func (s *Session) hasQuorum(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, "tcp", server)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write([]byte("isro")); err != nil {
		return false
	}
	answer := make([]byte, 2)
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == "rw"
}
