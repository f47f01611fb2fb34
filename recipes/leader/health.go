package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Role is a participant's state in its election.
type Role int8

const (
	// Idle: takes no part. The latch has left, or the selector is not running.
	Idle    Role = iota
	Unknown      // joining the line, or without a connection
	// Following: waits in the line behind others, with a connection.
	Following
	// Leading: certainly leads.
	Leading
)

func (r Role) String() string {
	if r < Idle || r > Leading {
		return fmt.Sprintf("Role(%d)", int8(r))
	}
	return [...]string{"idle", "unknown", "following", "leading"}[r]
}

// Health is the state of a participant at one moment, for readiness probes and metrics.
type Health struct {
	Role  Role
	Since time.Time // when this role began
	// Ahead is set for Following: the number of participants ahead when it last listed the line. It lists when it
	// begins to wait, and whenever the participant right ahead leaves.
	Ahead int
	// Err is the reason for the role; set for Unknown and Idle.
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

// Check returns nil while the participant leads or follows, and while its role has been Unknown for no longer than
// tolerance. Otherwise the error is the reason. With a tolerance of one session timeout a readiness probe does not
// flap when a server restarts.
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

var errJoining = errors.New("still joining the election")

// Health returns the state of the participant, without a request.
func (c *candidate) Health() Health {
	// Several goroutines call Health at a time. A reading that began before the last recorded reading is outdated:
	// read again.
	for {
		if h, ok := c.recordReading(c.readRole()); ok {
			return h
		}
	}
}

type roleReading struct {
	number        uint64 // a later reading has a larger number
	idle          error
	joinErr       error
	position      *line.Position
	positionEpoch int64
	leading       bool
	state         framework.State
	epoch         int64
}

func (c *candidate) readRole() roleReading {
	c.mu.Lock()
	c.readings++
	r := roleReading{number: c.readings, idle: c.idle, joinErr: c.joinErr, position: c.position, positionEpoch: c.positionEpoch}
	term := c.term
	c.mu.Unlock()
	r.leading = term != nil && term.Valid()
	r.state, r.epoch = c.line.Client.State().State, c.line.Client.Safety().Epoch
	return r
}

func (r roleReading) toHealth() Health {
	h := Health{Role: Unknown}
	switch {
	case r.leading:
		h.Role = Leading
	case r.idle != nil:
		h.Role, h.Err = Idle, r.idle
	case r.state == framework.Suspended:
		h.Err = ErrSuspended
	case r.state == framework.Lost:
		h.Err = ErrSessionLost
	case r.state != framework.Connected && r.state != framework.Reconnected:
		h.Err = fmt.Errorf("no connection (%v)", r.state)
	case r.joinErr != nil:
		h.Err = r.joinErr
	case r.position == nil || r.positionEpoch != r.epoch:
		h.Err = errJoining
	default:
		h.Role, h.Ahead = Following, r.position.Ahead
	}
	return h
}

// recordReading sets the role from a reading. It returns false if a later reading was recorded already.
func (c *candidate) recordReading(r roleReading) (Health, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.number < c.recorded {
		return Health{}, false
	}
	h := r.toHealth()
	if c.recorded = r.number; h.Role != c.role {
		c.role, c.since = h.Role, time.Now()
	}
	h.Since = c.since
	return h, true
}

// followConnection updates the role, and so Since, when the connection changes, until stop is called.
func (c *candidate) followConnection() (stop func()) {
	return c.line.Client.ForRecipes().WhenStateChanges(func() { c.Health() })
}
