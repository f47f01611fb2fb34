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

// Why a connection ends, or is not made.
var (
	errSilent      = errors.New("no answer from the server")
	errTrickle     = errors.New("no complete answer from the server")
	errStuck       = errors.New("the server never answered a request")
	errSkipped     = errors.New("the server skipped a request")
	errRefused     = errors.New("handshake failed")
	errBehind      = errors.New("the servers have older data than this process has seen")
	errNotListed   = errors.New("the server is no longer on the list of servers")
	errTooOld      = errors.New("the server cannot re-arm persistent watches")
	errQuorumFound = errors.New("leaving a server without a quorum for one that has a quorum")

	errLoginRequired = fmt.Errorf("%w: the server requires its clients to authenticate", ErrAuthFailed)
)

// errNotZooKeeper means that the process that listens at a server's address is not ZooKeeper.
var errNotZooKeeper = errors.New("the answer is not in ZooKeeper's protocol")

// notZooKeeper returns a guess at the other protocol, by the first bytes of the answer, which would be the length of a
// frame.
func notZooKeeper(head [4]byte, limit int) error {
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

// hungUp reports whether the other side ended the connection.
func hungUp(err error) bool {
	return isAny(err, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE)
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// reasons are the words of Reason, the more telling ones first.
var reasons = []struct {
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
	for _, r := range reasons {
		if isAny(err, r.errs...) {
			return r.word
		}
	}
	return "network"
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
