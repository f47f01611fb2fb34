package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReasons(t *testing.T) {
	for want, err := range map[string]error{
		"":                nil,
		"expired":         fmt.Errorf("%w: %w", ErrSessionLost, ErrExpired),
		"lapsed":          ErrLapsed,
		"silent":          fmt.Errorf("%w for 3s", errSilent),
		"stuck":           errStuck,
		"unlisted":        errNotListed,
		"quorum":          errQuorumFound,
		"protocol":        fmt.Errorf("the answer: %w", errUnrequested),
		"unauthenticated": fmt.Errorf("%w: %w", errLoginRequired, io.EOF), // the cause, not its consequence
		"closed":          &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"network":         errors.New("no route to host"),
	} {
		assert.Equal(t, want, Reason(err))
	}
}

// The first bytes of another protocol's reply show which it is.
func TestAnswersOfOtherServers(t *testing.T) {
	for head, want := range map[string]string{
		"HTTP": "web server", "\x15\x03\x01\x00": "TLS", "\x16\x03\x01\x00": "TLS", "\x16\x04\x01\x00": "16 04 01 00",
		"SSH-": `begins with "SSH-"`, " ~ ~": `begins with " ~ ~"`, "~\x7f~~": "7e 7f 7e 7e", "~\x1f~~": "7e 1f 7e 7e",
	} {
		err := notZooKeeperError([4]byte([]byte(head)), 100)
		assert.ErrorIs(t, err, errNotZooKeeper)
		assert.ErrorContains(t, err, want)
	}
}
