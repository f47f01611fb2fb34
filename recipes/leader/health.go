package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
)

// Role is what a participant is in its election.
type Role int8

const (
	// Idle takes no part: the latch has left, the selector is not running.
	Idle Role = iota
	// Unknown is on its way into the line, or without a connection.
	Unknown
	// Following stands in line behind somebody, with a connection.
	Following
	// Leading leads, certainly.
	Leading
)

func (r Role) String() string {
	switch r {
	case Idle:
		return "idle"
	case Unknown:
		return "unknown"
	case Following:
		return "following"
	case Leading:
		return "leading"
	}
	return fmt.Sprintf("Role(%d)", int8(r))
}

// Health is how a participant is doing at one moment, for readiness probes and metrics. It is made without asking the servers.
type Health struct {
	Role Role
	// Since is when it began to have that role.
	Since time.Time
	// Ahead, for Following, is how many stood in front when it last looked, which is when it began to wait and whenever the one right in front left.
	Ahead int
	// Err, for Unknown and Idle, says why.
	Err error
}

func (h Health) String() string {
	text := h.Role.String() + " since " + h.Since.Format(time.RFC3339)
	if h.Role == Following {
		text += fmt.Sprintf(", %d ahead", h.Ahead)
	}
	if h.Err != nil {
		text += ": " + h.Err.Error()
	}
	return text
}

// Check is nil while leading or following, and while the role has been unknown for no longer than tolerance; otherwise it says what is wrong. A
// readiness probe that tolerates a session timeout does not flap when a server restarts.
func (h Health) Check(tolerance time.Duration) error {
	switch h.Role {
	case Leading, Following:
		return nil
	case Unknown:
		if age := time.Since(h.Since); age > tolerance {
			return fmt.Errorf("neither leading nor following for %v: %w", age.Round(time.Millisecond), h.Err)
		}
		return nil
	}
	return fmt.Errorf("not taking part in the election: %w", h.Err)
}

var errJoining = errors.New("joining the election")

// look finds out the role, and notes the time if it is another than at the last look. It is called whenever something may have changed.
func (c *candidate) look() Health {
	leading := c.current() != nil
	state := c.line.Client.State().State
	epoch := c.line.Client.Safety().Epoch
	c.mu.Lock()
	defer c.mu.Unlock()
	h := Health{Role: Unknown}
	switch {
	case leading:
		h.Role = Leading
	case c.idle != nil:
		h.Role, h.Err = Idle, c.idle
	case state == framework.Suspended:
		h.Err = ErrSuspended
	case state == framework.Lost:
		h.Err = ErrSessionLost
	case state != framework.Connected && state != framework.Reconnected:
		h.Err = fmt.Errorf("no connection (%v)", state)
	case c.joinErr != nil:
		h.Err = c.joinErr
	case c.place == nil || c.epoch != epoch:
		h.Err = errJoining
	default:
		h.Role, h.Ahead = Following, c.place.Ahead
	}
	if h.Role != c.role {
		c.role, c.since = h.Role, time.Now()
	}
	h.Since = c.since
	return h
}

// attend keeps Since right while nothing but the connection changes, until ctx or the client ends.
func (c *candidate) attend(ctx context.Context) {
	for range c.line.Client.StateChanges(ctx) {
		c.look()
	}
}
