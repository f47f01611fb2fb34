package mutex

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/recipes/internal/line"
)

// own is the owner: it acquires nodes, one after the other, as long as callers want one. ctx ends when the client
// closes.
//
// A hook may end the goroutine. Then the deferred functions run as after any error, and another owner takes over.
func (l *local) own(ctx context.Context) {
	more := true
	defer func() {
		if more {
			l.line.Client.Spawn(l.own)
		}
	}()
	for more {
		if n := l.get(ctx, &more); n != nil {
			l.tend(n, &more)
		}
	}
}

// get acquires a node; nil if it fails. Then more reports whether callers still want one.
func (l *local) get(ctx context.Context, more *bool) (n *node) {
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	try, err := l.begin(cancel), apart.ErrNoReturn
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.stop = nil; err == nil {
			l.node = n
			l.on(onGrant)
			return
		}
		switch over := l.line.Client.Err(); {
		case over != nil:
			l.tell(over, false)
		case attempt.Err() == nil: // otherwise the callers had left before the failure
			l.tell(err, try)
		}
		l.on(onFailure)
		*more = l.state.phase != away
	}()
	acquire := l.line.Acquire
	if try {
		acquire = l.line.TryAcquire
	}
	grant, failed := acquire(attempt)
	if failed == nil {
		l.line.Listen(grant)
		n = &node{Grant: grant, home: l, gone: make(chan struct{})}
		n.connections, n.dropped = grant.Session.Connections(), line.DroppedOf(grant.Path, grant.Session)
	}
	err = failed
	return n
}

// begin reports whether the node is for a try.
func (l *local) begin(stop context.CancelFunc) (try bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop = stop; l.waiting.Len() == 0 {
		stop() // the callers have left
	}
	return l.tries()
}

// tend watches over the node until it has to be released, and releases it. more reports whether callers want another
// one.
func (l *local) tend(n *node, more *bool) {
	var watch *framework.Watch // of the directory
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.node = nil
		l.on(onGone)
		*more = l.state.phase != away
	}()
	defer func() { n.leave(watch) }()
	seen := make(chan listing, 1)
	looking, looks := context.WithCancel(n.Hold.Context())
	defer func() {
		looks()
		if late, ok := drain(seen); ok {
			late.Watch.Stop()
		}
	}()
	revoked, lost := l.line.Listen(n.Grant), n.Hold.Context().Done()
	var over <-chan struct{} // the session, after a loss
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for busy := false; ; {
		switch todo := l.nextAction(n, timer); {
		case todo == stop:
			return
		case todo == end:
			n.giveBack()
			return
		case todo == look && !busy:
			watch.Stop()
			watch, busy = nil, true
			n.look(looking, seen)
		}
		select {
		case <-l.kick:
			continue
		case <-lost:
			lost, over = nil, n.Session.Done()
			l.happens(onLoss)
		case <-over:
			over = nil
			l.happens(onLoss)
		case <-revoked:
			revoked = nil
			l.happens(onAsked)
		case <-line.Events(watch):
			watch = nil
			l.happens(onSought)
		case s := <-seen:
			watch, busy = s.Watch, false
			l.saw(n, s)
		case <-timer.C:
			l.happens(onTick)
		}
	}
}

// nextAction returns the owner's next action: end, which releases the node; stop, after that; look; or nothing, until
// timer fires.
func (l *local) nextAction(n *node, timer *time.Timer) action {
	l.mu.Lock()
	defer l.mu.Unlock()
	todo := l.limits.duty(l.state, n.giving, n.given)
	switch {
	case todo == end:
		n.giving = true
	case l.state.phase == ending:
		timer.Reset(time.Until(l.state.until))
	case l.state.phase == free:
		timer.Reset(l.limits.idle - time.Since(l.state.idle))
	case l.limits.idle > 0: // a turn may end at any time, and does not wake the owner
		timer.Reset(l.limits.idle)
	}
	return todo
}

func (l *local) happens(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on(e)
}

// listing is the result of a look at the line of contenders.
type listing struct {
	line.Contenders
	err error
}

// look lists the contenders, on a goroutine: it lasts as long as the connection is suspended. The end of ctx discards
// the result.
func (n *node) look(ctx context.Context, seen chan listing) {
	n.home.line.Client.Spawn(func(context.Context) {
		s := listing{err: apart.ErrNoReturn}
		defer func() {
			if seen <- s; ctx.Err() != nil {
				if late, ok := drain(seen); ok {
					late.Watch.Stop()
				}
			}
		}()
		s.Contenders, s.err = n.Contenders(ctx)
	})
}

func drain(seen chan listing) (s listing, ok bool) {
	select {
	case s = <-seen:
		return s, true
	default:
		return s, false
	}
}

// saw handles a look's result. A node that cannot be watched is not kept.
func (l *local) saw(n *node, s listing) {
	if errors.Is(s.err, framework.ErrNodeDeleted) {
		n.Hold.End(framework.ErrNodeDeleted)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n.connections = s.Connections
	if s.err == nil && !s.Others {
		l.on(onAlone)
	} else {
		l.on(onSought)
	}
}
