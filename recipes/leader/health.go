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

// look finds out the role, and notes the time if it is another than at the last look. It is called whenever something may have changed, by several at a
// time, and foreign code may hold one of them up on its way: a look that began before the one that was noted last is outdated, and is done again.
func (c *candidate) look() Health {
	for {
		if h, ok := c.note(c.glance()); ok {
			return h
		}
	}
}

// glance is what a look goes by.
type glance struct {
	number  uint64 // of the look: a later one has a larger number
	idle    error
	joinErr error
	place   *queue.Position
	placed  int64 // the session in which place is
	leading bool
	state   framework.State
	epoch   int64
}

func (c *candidate) glance() glance {
	c.mu.Lock()
	c.looks++
	g := glance{number: c.looks, idle: c.idle, joinErr: c.joinErr, place: c.place, placed: c.epoch}
	term := c.term
	c.mu.Unlock()
	g.leading = term != nil && term.Valid()
	g.state, g.epoch = c.line.Client.State().State, c.line.Client.Safety().Epoch
	return g
}

// health is what a glance means.
func (g glance) health() Health {
	h := Health{Role: Unknown}
	switch {
	case g.leading:
		h.Role = Leading
	case g.idle != nil:
		h.Role, h.Err = Idle, g.idle
	case g.state == framework.Suspended:
		h.Err = ErrSuspended
	case g.state == framework.Lost:
		h.Err = ErrSessionLost
	case g.state != framework.Connected && g.state != framework.Reconnected:
		h.Err = fmt.Errorf("no connection (%v)", g.state)
	case g.joinErr != nil:
		h.Err = g.joinErr
	case g.place == nil || g.placed != g.epoch:
		h.Err = errJoining
	default:
		h.Role, h.Ahead = Following, g.place.Ahead
	}
	return h
}

// note makes what a glance means the role; false if a later one has done so already.
func (c *candidate) note(g glance) (Health, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.number < c.noted {
		return Health{}, false
	}
	h := g.health()
	if c.noted = g.number; h.Role != c.role {
		c.role, c.since = h.Role, time.Now()
	}
	h.Since = c.since
	return h, true
}

// attend keeps Since right while nothing but the connection changes, until the client ends or stop is called, which waits for that.
func (c *candidate) attend() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range c.line.Client.StateChanges(ctx) {
			c.look()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
