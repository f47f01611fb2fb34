package framework

import "time"

// SignOfLife is what a client sends to show that it lives.
type SignOfLife int8

const (
	// Ping goes to the connected server when nothing else does.
	Ping SignOfLife = iota
	// Heartbeat goes to the quorum while something is held under [RuleHeartbeat].
	Heartbeat
)

func (s SignOfLife) String() string { return nameOf("SignOfLife", s, "ping", "heartbeat") }

// RoundTrip is a sign of life and its answer.
type RoundTrip struct {
	Kind  SignOfLife
	Epoch int64
	// Took is the time between its sending and the answer.
	Took time.Duration
}

// pong is told the round trips of an epoch's pings; nil without hooks.
func (c *core) pong(n int64) func(time.Duration) {
	if !c.cfg.observer.Active() {
		return nil
	}
	return func(took time.Duration) { c.roundTrip(RoundTrip{Ping, n, took}) }
}

// roundTrip tells the hooks.
func (c *core) roundTrip(r RoundTrip) { c.ops.hooks.put(func() { c.cfg.observer.roundTrip(r) }) }
