package wire

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// Load is what waits for a connection or for room on it, and what waits for an answer.
type Load struct{ Queued, InFlight int }

// Load counts the calls that have no answer yet.
func (s *Session) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{s.queue.n(), s.flight.n}
}

// Server is the one that is connected, "" if none is.
func (s *Session) Server() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return ""
	}
	return s.link.server
}

// Reason says in a word why a connection or a session has ended, for metrics. It is "" for nil.
func Reason(err error) string {
	for _, r := range []struct {
		err  error
		word string
	}{
		{ErrAuthFailed, "unauthenticated"}, {ErrExpired, "expired"}, {ErrLapsed, "lapsed"}, {errSilent, "silent"}, {errTrickle, "silent"}, {errStuck, "stuck"},
		{ErrProtocol, "protocol"}, {errNotListed, "unlisted"}, {errQuorumFound, "quorum"},
		{io.EOF, "closed"}, {io.ErrUnexpectedEOF, "closed"}, {syscall.ECONNRESET, "closed"}, {io.ErrClosedPipe, "closed"}, {net.ErrClosed, "closed"},
	} {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	if err == nil {
		return ""
	}
	return "network"
}
