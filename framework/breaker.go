package framework

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/retry"
)

// StateChangesBehindBreaker is [Client.StateChanges] behind a circuit breaker, for who tears down and builds up at every change and would rather not
// while a connection flaps. The first change for the worse (Suspended, Lost) is told at once, and opens the breaker for the policy's first wait. While it is
// open only the first Lost is told. When the wait is over and the client is connected, or nothing has happened since, the breaker closes; else it stays open
// for the policy's next wait, and closes when the policy has no more. What it closes with is the latest change, unless that was told last.
//
// What was left out shows in the epoch: a change whose epoch has grown says that everything ephemeral of before is gone. Recipes do not use it, and
// what must be known at once, such as the end of a hold, should not be behind it: every wait hides a recovery, or a second loss, for as long.
//
// With a policy that has no wait, or nil, it is StateChanges. The channel is closed as that one's is. Corresponds to Curator's
// ConnectionStateListenerManagerFactory.circuitBreaking and CircuitBreakingConnectionStateListener.
func (c *Client) StateChangesBehindBreaker(ctx context.Context, policy retry.Policy) <-chan StateChange {
	if ctx == nil || policy == nil || c.none() {
		return c.StateChanges(ctx)
	}
	out := make(chan StateChange)
	inner, cancel := context.WithCancel(ctx)
	in := c.StateChanges(inner)
	if !c.core.spawn(func() {
		defer close(out)
		defer cancel()
		(&breaker{policy: policy}).pump(ctx, in, out)
	}) {
		cancel()
		close(out)
	}
	return out
}

// breaker is the circuit breaker as a state machine that knows no time: hears and due say what is to be told and how long to wait.
type breaker struct {
	policy retry.Policy
	waits  backoff.BackOff // nil: closed
	told   StateChange     // last
	last   StateChange     // heard
	news   bool            // something was heard since it opened
}

// noWait says that the wait under way, if any, goes on.
const noWait time.Duration = -1

func (b *breaker) hears(change StateChange) (tell bool, wait time.Duration) {
	b.last = change
	if b.waits != nil {
		b.news = true
		if tell = change.State == Lost && b.told.State != Lost; tell {
			b.told = change
		}
		return tell, noWait
	}
	b.told = change
	if change.State.IsConnected() {
		return true, noWait
	}
	waits := b.policy.NewBackOff()
	if wait = waits.NextBackOff(); wait == backoff.Stop {
		return true, noWait
	}
	b.waits, b.news = waits, false
	return true, wait
}

// due is for when a wait is over.
func (b *breaker) due() (tell bool, wait time.Duration) {
	if b.news && !b.last.State.IsConnected() {
		if wait = b.waits.NextBackOff(); wait != backoff.Stop {
			return false, wait
		}
	}
	b.waits = nil
	if b.last == b.told {
		return false, noWait
	}
	b.told = b.last
	return true, noWait
}

// pump ends with in, or ctx. A slow subscriber does not stop the breaker: what is to be told waits in a queue.
func (b *breaker) pump(ctx context.Context, in <-chan StateChange, out chan<- StateChange) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	var queue []StateChange
	for {
		var to chan<- StateChange
		var next StateChange
		if len(queue) > 0 {
			to, next = out, queue[0]
		}
		var tell bool
		wait := noWait
		select {
		case change, open := <-in:
			if !open {
				return
			}
			tell, wait = b.hears(change)
		case <-timer.C:
			tell, wait = b.due()
		case to <- next:
			queue = queue[1:]
		case <-ctx.Done():
			return
		}
		if tell {
			queue = append(queue, b.told)
		}
		if wait >= 0 {
			timer.Reset(wait)
		}
	}
}
