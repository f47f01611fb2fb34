package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Role is what a participant is in its election.
type Role int8

const (
	// Idle takes no part: the latch has left, the selector is not running.
	Idle    Role = iota
	Unknown      // on its way into the line, or without a connection
	// Following stands in line, not as the first, with a connection.
	Following
	// Leading leads, certainly.
	Leading
)

func (r Role) String() string {
	if r < Idle || r > Leading {
		return fmt.Sprintf("Role(%d)", int8(r))
	}
	return [...]string{"idle", "unknown", "following", "leading"}[r]
}

// Health is how a participant is doing at one moment, for readiness probes and metrics.
type Health struct {
	Role  Role
	Since time.Time // when it began to have that role
	// Ahead, for Following, is how many were ahead when it last looked, which is when it began to wait and
	// whenever the one right ahead left.
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

// Check is nil while leading or following, and while the role has been unknown for no longer than tolerance;
// otherwise it says what is wrong. A readiness probe that tolerates a session timeout does not flap when a
// server restarts.
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

// Health says how the participant is doing, without asking the servers.
func (c *candidate) Health() Health {
	// It is called whenever something may have changed, by several goroutines at a time, and code of the user's
	// may delay one of them. So a reading that began before the one that was recorded last is outdated, and is
	// done again.
	for {
		if h, ok := c.record(c.read()); ok {
			return h
		}
	}
}

type reading struct {
	number  uint64 // a later one has a larger number
	idle    error
	joinErr error
	place   *queue.Position
	placed  int64 // the session in which place is
	leading bool
	state   framework.State
	epoch   int64
}

func (c *candidate) read() reading {
	c.mu.Lock()
	c.readings++
	r := reading{number: c.readings, idle: c.idle, joinErr: c.joinErr, place: c.place, placed: c.epoch}
	term := c.term
	c.mu.Unlock()
	r.leading = term != nil && term.Valid()
	r.state, r.epoch = c.line.Client.State().State, c.line.Client.Safety().Epoch
	return r
}

func (r reading) health() Health {
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
	case r.place == nil || r.placed != r.epoch:
		h.Err = errJoining
	default:
		h.Role, h.Ahead = Following, r.place.Ahead
	}
	return h
}

// record makes what a reading means the role; false if a later one was recorded already.
func (c *candidate) record(r reading) (Health, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.number < c.recorded {
		return Health{}, false
	}
	h := r.health()
	if c.recorded = r.number; h.Role != c.role {
		c.role, c.since = h.Role, time.Now()
	}
	h.Since = c.since
	return h, true
}

// followConnection keeps Since right while nothing but the connection changes. It ends with the client, or
// when stop is called, which waits for that.
func (c *candidate) followConnection() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range c.line.Client.StateChanges(ctx) {
			c.Health()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
