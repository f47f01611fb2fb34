package framework

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/plain"
)

// Health is the state of a client at one moment, for probes, logs and gauges.
type Health struct {
	// StateChange is the last announced state, NeverConnected before the first connection. Since is the time of that
	// announcement, or of New.
	StateChange
	Since time.Time
	// Away is the beginning of the present time without a connection to a server with a quorum: the time of the loss, or
	// of New if there was no such connection yet. It is zero while there is one.
	Away time.Time
	// Server is the connected server, "" if there is none.
	Server string
	// Trouble is the reason why the last attempt to connect failed or the last connection was lost; nil while
	// connected.
	Trouble error
	// Safety contains the rule in force, the remaining validity and the number of holds.
	Safety Safety
	// Queued counts the requests that wait for a connection or for room in the window (the limit for requests in
	// flight). InFlight counts the requests that wait for a reply.
	Queued, InFlight int
	// Cleanups counts the nodes that the client still has to remove, see [Client.PendingCleanups].
	Cleanups int
	// Connections counts the connections that the session has had.
	Connections uint64
	// Encrypted reports whether the client makes its connections with TLS: it has WithTLS or WithTLSFiles. The client
	// does not know whether a custom dialer encrypts.
	Encrypted bool
	// Closed reports whether Close has begun.
	Closed bool
}

// Health returns the state of the client. It sends nothing and does not block. On a session's view, Server, Queued,
// InFlight, Connections and Safety are those of that session. For a nil or zero client, Trouble is ErrNoClient, and Err
// returns it.
func (c *Client) Health() Health {
	if c.isZeroValue() {
		return Health{Trouble: ErrNoClient}
	}
	e := c.viewEpoch()
	load := e.wire.Load()
	h := Health{
		Server: e.wire.Server(), Trouble: c.core.connectFailure.lastFailure(), Safety: c.Safety(), Queued: load.Queued,
		InFlight: load.InFlight,
		Cleanups: c.PendingCleanups(), Connections: e.wire.Connections(), Encrypted: c.core.cfg.usesEncryption(),
	}
	h.StateChange, h.Since, h.Away = c.core.board.stateAge()
	select {
	case <-c.core.closed:
		h.Closed = true
	default:
	}
	return h
}

// Err returns nil if the client is connected to a server with a quorum. Otherwise the error matches ErrClosed,
// ErrNotReadOnly (connected to a member without a quorum), ErrSuspended, ErrSessionLost or ErrNotConnected (never
// connected). It also matches Trouble, such as ErrAuthFailed, and its text has the time without a connection.
//
// Err does not report a session timeout that is too short for holds, because most clients hold nothing: see
// Safety.Refused.
func (h Health) Err() error { return h.Check(0) }

// Check is like Err, but also returns nil until tolerance has passed since Away. That time counts from the loss of the
// connection, even if the session was lost since. So a readiness probe whose tolerance is the session timeout does not
// flap when a server restarts or the leader changes.
func (h Health) Check(tolerance time.Duration) error {
	switch {
	case h.Closed:
		return ErrClosed
	case h.State == Connected || h.State == Reconnected:
		return nil
	case h.Trouble == ErrNoClient:
		return h.Trouble
	}
	why := map[State]error{ReadOnly: ErrNotReadOnly, Suspended: ErrSuspended, Lost: ErrSessionLost}[h.State]
	if why == nil {
		why = errNeverConnected
	}
	away := h.Away
	if away.IsZero() { // in a Health that was not made by Client.Health
		away = h.Since
	}
	if away.IsZero() {
		return why
	}
	age := time.Since(away)
	switch {
	case tolerance > 0 && age <= tolerance:
		return nil
	case h.Trouble != nil && !errors.Is(why, h.Trouble):
		return fmt.Errorf("%w; no connection to a quorum for %v: %w",
			why, age.Round(time.Millisecond), h.Trouble)
	}
	return fmt.Errorf("%w; no connection to a quorum for %v", why, age.Round(time.Millisecond))
}

// String returns a text for logs. Its form may change between releases.
func (h Health) String() string {
	var s strings.Builder
	fmt.Fprint(&s, h.StateChange)
	if h.Server != "" {
		fmt.Fprint(&s, " at ", plain.Text(h.Server))
	}
	fmt.Fprintf(&s, ", rule %v, valid for %v, %d held", h.Safety.Rule,
		h.Safety.Remaining.Round(time.Millisecond), h.Safety.Holds)
	if h.Queued+h.InFlight > 0 {
		fmt.Fprintf(&s, ", requests %d in flight and %d queued", h.InFlight, h.Queued)
	}
	if h.Cleanups > 0 {
		fmt.Fprintf(&s, ", %d clean-ups pending", h.Cleanups)
	}
	if err := h.Err(); err != nil {
		fmt.Fprint(&s, ": ", err)
	}
	return s.String()
}

// PendingCleanups returns the number of nodes that the client still has to delete in the background: nodes of guaranteed
// deletes that failed, and of protected creates whose callers have stopped waiting. It also counts requests in flight
// whose replies may make such a deletion necessary. For metrics.
func (c *Client) PendingCleanups() int {
	if c.isZeroValue() {
		return 0
	}
	q := &c.core.ops.cleanups
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) + q.lateReplies
}

// Safety returns the rule that keeps the current session's holds safe, with its times, for logs, metrics and readiness
// checks; on a session's view, of that session. After Close it describes the last session. It does not block.
func (c *Client) Safety() Safety {
	if c.isZeroValue() {
		return Safety{}
	}
	e := c.viewEpoch()
	v := e.wire.Validity()
	standing := v.Standing()
	timeout := cmp.Or(standing.Timeout, e.core.cfg.sessionTimeout)
	p := e.core.cfg.planFor(timeout, standing.Standalone)
	return Safety{
		Epoch: e.number, Rule: p.ruleInForce(), SessionTimeout: timeout, Known: standing.Known,
		Standalone: standing.Standalone, Bound: p.bound, Margin: p.servers.Margin, Heartbeat: p.heartbeat,
		Remaining: max(v.Remaining(), 0), Steady: p.steadyRemaining(timeout), Holds: len(e.currentHolds()), Refused: p.refused,
	}
}
