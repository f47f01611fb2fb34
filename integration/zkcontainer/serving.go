package zkcontainer

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/go-curator/curator/integration/zkserver"
)

const (
	// pollTimeout bounds one request. A connection made while the server starts may never be answered.
	pollTimeout = 300 * time.Millisecond
	// pollPause is the time between two requests.
	pollPause = 20 * time.Millisecond
)

// mode returns the mode that the server at addr reports: standalone, leader, follower, observer; empty unless it
// serves. Neither an open port nor a line in the log proves that it serves.
func mode(ctx context.Context, addr string) string { return status(ctx, addr, "Mode: ") }

func version(ctx context.Context, addr string) string {
	number, _, _ := strings.Cut(status(ctx, addr, "Zookeeper version: "), "-")
	return number
}

// status is a line of the answer to srvr, without its beginning.
func status(ctx context.Context, addr, beginning string) string {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	answer, err := zkserver.FourLetter(ctx, addr, "srvr")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(answer) {
		if value, found := strings.CutPrefix(line, beginning); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// serves is the wait strategy of a server that is alone. It must be used as a pointer: testcontainers panics
// on other kinds.
type serves struct{}

// WaitUntilReady returns when the server serves. It ends with ctx, or when the container has ended.
func (*serves) WaitUntilReady(ctx context.Context, target wait.StrategyTarget) error {
	var err error
	for {
		state, stateErr := target.State(ctx)
		if stateErr == nil && !state.Running {
			return fmt.Errorf("the server has ended with status %d", state.ExitCode)
		}
		host, hostErr := target.Host(ctx)
		port, portErr := target.MappedPort(ctx, clientPort)
		if err = firstOf(stateErr, hostErr, portErr); err == nil &&
			mode(ctx, plain(net.JoinHostPort(host, port.Port()))) != "" {
			return nil
		}
		if !pause(ctx) {
			if err != nil {
				return fmt.Errorf("the server does not serve: %w: %w", context.Cause(ctx), err)
			}
			return fmt.Errorf("the server does not serve: %w", context.Cause(ctx))
		}
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pause waits a little. It returns false when ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pollPause):
		return true
	}
}
