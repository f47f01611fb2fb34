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
		"unauthenticated": fmt.Errorf("%w: %w", errLoginRequired, io.EOF), // the reason, not its consequence
		"closed":          &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"network":         errors.New("no route to host"),
	} {
		assert.Equal(t, want, Reason(err))
	}
}
