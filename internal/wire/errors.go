package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
)

// Errors of a Reply and of session events. Use errors.Is: they come wrapped.
var (
	// ErrNotSent means that a call was never written to a connection: it was certainly not executed.
	ErrNotSent = errors.New("not sent")
	// ErrConnectionLost means that the connection was lost between a call and its reply: the outcome is unknown.
	ErrConnectionLost = errors.New("connection lost")
	// ErrSessionLost means that the session ended before the reply to a call. It comes joined with ErrNotSent or
	// ErrConnectionLost.
	ErrSessionLost = errors.New("session lost")
	// ErrExpired is the cause of a Lost event when a server has reported the session expired.
	ErrExpired = errors.New("session expired by the server")
	// ErrLapsed is the cause of a Lost event when the session's time has run out by the client's clock (promise P1);
	// the servers may not have expired it.
	ErrLapsed = errors.New("no answer in time: the server may have expired the session")
	// ErrClosed means that the session was closed by its owner.
	ErrClosed = errors.New("closed")
	// ErrNoOperation means that a call has no row in the table of operations (ops.go); it was not sent.
	ErrNoOperation = errors.New("the client has no such operation")
	// ErrTooLarge means that a request is larger than the server's packet limit; it was not sent.
	ErrTooLarge = errors.New("request larger than the packet limit")
	// ErrProtocol means that a server sent something that the protocol does not allow. It ends the connection.
	ErrProtocol = errors.New("the server violates ZooKeeper's protocol")
	// ErrReplyTooLarge means that a reply is larger than MaxReply. It was skipped, and the connection continues; the
	// server may have executed the request.
	ErrReplyTooLarge = errors.New("answer larger than allowed")
	// ErrUnacknowledged means that a session ended without an acknowledgement: its ephemeral nodes may stay until its
	// timeout.
	ErrUnacknowledged = errors.New(
		"session close not acknowledged: ephemeral nodes may stay until the session timeout")
	// ErrOpensNoSessions means that a member without a quorum opens no sessions, not even read-only ones.
	ErrOpensNoSessions = errors.New(
		"the server has lost its quorum and opens no sessions; " +
			"to open read-only sessions it needs localSessionsEnabled=true")
	// ErrHungUp means that a server closed the connection instead of answering the handshake.
	ErrHungUp = errors.New("the server closed the connection without an answer")
	// ErrAuthFailed means that the server refused a credential.
	ErrAuthFailed = errors.New("authentication failed")
)

// Why a connection ends, or is not made.
var (
	errSilent       = errors.New("no answer from the server")
	errTrickle      = errors.New("no complete answer from the server")
	errStuck        = errors.New("the server never answered a request")
	errSkipped      = errors.New("the server skipped a request")
	errRefused      = errors.New("handshake failed")
	errBehind       = errors.New("the servers have older data than this process has seen")
	errNotListed    = errors.New("the server is no longer on the list of servers")
	errTooOld       = errors.New("the server cannot re-arm persistent watches")
	errNoConnection = errors.New("no connection in time")
	errQuorumFound  = errors.New("leaving a server without a quorum for one that has a quorum")

	errLoginRequired = fmt.Errorf("%w: the server requires its clients to authenticate", ErrAuthFailed)
)

// Reasons to end a connection, all of them ErrProtocol.
var (
	errUnrequested = fmt.Errorf("%w: an answer to no request of this client", ErrProtocol)
	errOversize    = fmt.Errorf("%w: a frame larger than any valid answer", ErrProtocol)
	errInvalidPath = fmt.Errorf("%w: an event with an invalid path", ErrProtocol)
)

// errNotZooKeeper means that the process that listens at a server's address is not ZooKeeper.
var errNotZooKeeper = errors.New("the answer is not in ZooKeeper's protocol")

// notZooKeeperError returns a guess at the other protocol, by the first bytes of the reply, which would be the length
// of a frame.
func notZooKeeperError(head [4]byte, limit int) error {
	text := string(head[:])
	switch {
	case text == "HTTP":
		return fmt.Errorf("%w: a web server answered: is this the port of the AdminServer, or of a proxy?",
			errNotZooKeeper)
	case (head[0] == 0x15 || head[0] == 0x16) && head[1] == 3: // an alert, or a handshake
		return fmt.Errorf("%w: the server speaks TLS: is this its secureClientPort?", errNotZooKeeper)
	case !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("%w: it begins with %q", errNotZooKeeper, text)
	}
	return fmt.Errorf("%w: it begins with % x, which would mean a frame of more than %d bytes",
		errNotZooKeeper, head, limit)
}

// isHangUp reports whether the other side ended the connection.
func isHangUp(err error) bool {
	return matchesAny(err, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// reasonWords are the words of Reason, the more telling ones first.
var reasonWords = []struct {
	word string
	errs []error
}{
	{"unauthenticated", []error{ErrAuthFailed}},
	{"expired", []error{ErrExpired}},
	{"lapsed", []error{ErrLapsed}},
	{"silent", []error{errSilent, errTrickle}},
	{"stuck", []error{errStuck}},
	{"protocol", []error{ErrProtocol}},
	{"unlisted", []error{errNotListed}},
	{"quorum", []error{errQuorumFound}},
	{"closed", []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, io.ErrClosedPipe, net.ErrClosed}},
}

// Reason returns one word for the reason why a connection or a session has ended, for metrics; "" for nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range reasonWords {
		if matchesAny(err, r.errs...) {
			return r.word
		}
	}
	return "network"
}

func matchesAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
