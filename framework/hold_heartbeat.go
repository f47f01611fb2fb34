package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// The heartbeat rule: while something is held, a transaction that checks the nodes of the holds goes to the quorum every T/6. It proves that
// the session lives (the session layer counts committed writes by itself), and it fails when a node is gone.

const (
	// beatNodes and beatBytes bound one heartbeat transaction; further nodes go into another.
	beatNodes = 128
	beatBytes = 64 << 10
	// settleWrites is how many writes a new hold waits for at most: two are needed, one more if an old one stood in the way.
	settleWrites = 3
)

// startBeating begins the heartbeats if there is need and they are not going on. The first follows the last committed write as one heartbeat follows
// another: the writes by which the hold is certain may be a while ago, and it does not live for another interval on top.
func (m *manager) startBeating() {
	if e := m.core.epochLast(); !m.beating {
		m.beatAfter(e, e.wire.Validity().SinceCommit())
	}
}

// beatAfter sets the time of the next heartbeat, if there is need: the last was so long ago.
func (m *manager) beatAfter(e *epoch, ago time.Duration) {
	if every := e.plan().every; every > 0 && len(e.held()) > 0 {
		m.beating = true
		m.beat.Reset(max(every-ago, 0))
	}
}

func (m *manager) stopBeating() {
	m.beating = false
	m.beat.Stop()
}

// heartbeat sends one now, and sets the time of the next.
func (m *manager) heartbeat() {
	e := m.core.epochLast()
	m.stopBeating()
	m.beatAfter(e, 0)
	if m.beating && e.connected() {
		for _, batch := range batches(e.held()) {
			m.check(e, batch)
		}
	}
}

// batches divides the holds among transactions. A hold whose node may not be checked is left out; if no other is there the root is checked,
// by an empty batch.
func batches(holds []*Hold) (out [][]*Hold) {
	var batch []*Hold
	size := 0
	for _, h := range holds {
		h.mu.Lock()
		skip := h.unlisted || h.cause != nil
		h.mu.Unlock()
		if skip {
			continue
		}
		if len(batch) == beatNodes || len(batch) > 0 && size+len(h.path) > beatBytes {
			out, batch, size = append(out, batch), nil, 0
		}
		batch, size = append(batch, h), size+len(h.path)+32
	}
	if len(batch) > 0 || len(out) == 0 && len(holds) > 0 {
		out = append(out, batch)
	}
	return out
}

// checks is the transaction that fails unless all the nodes exist.
func checks(paths ...string) []byte {
	req := &jute.MultiRequest{}
	for _, p := range paths {
		req.Ops = append(req.Ops, jute.MultiOp{Op: jute.OpCheck, Request: &jute.PathVersionRequest{Path: p, Version: -1}})
	}
	return jute.Marshal(req)
}

func (m *manager) check(e *epoch, batch []*Hold) {
	paths := make([]string, 0, len(batch))
	for _, h := range batch {
		paths = append(paths, h.path)
	}
	if len(paths) == 0 {
		paths = []string{"/"}
	}
	e.wire.Submit(&wire.Call{
		Op: jute.OpMulti, Body: checks(paths...), Urgent: true, Patience: e.plan().every,
		Done: func(r wire.Reply) {
			failed, code := failure(r)
			switch {
			case code != jute.CodeOK:
				m.posts.put(func() { m.failed(e, batch, failed, code) })
			case r.Err == nil && m.core.cfg.observer.Active():
				m.core.roundTrip(RoundTrip{Heartbeat, e.n, time.Since(r.Sent)})
			}
		},
	})
}

// failure returns which check of a transaction failed and how; CodeOK if none did, or if there is no answer.
func failure(r wire.Reply) (index int, code int32) {
	if r.Err != nil {
		return 0, jute.CodeOK
	}
	res := jute.MultiResponse{Asked: beatNodes}
	if jute.Unmarshal(r.Body, &res) == nil {
		for i, one := range res.Results {
			// Those in front of the failed one have code 0, those behind it RuntimeInconsistency.
			if one.Op == jute.OpError && one.Err != jute.CodeOK && one.Err != jute.CodeRuntimeInconsistency {
				return i, one.Err
			}
		}
	}
	return -1, r.Code
}

// failed ends the hold whose node is gone and sends the others again: a transaction that fails is no heartbeat.
func (m *manager) failed(e *epoch, batch []*Hold, index int, code int32) {
	if index < 0 || index >= len(batch) {
		m.core.log.Warn("heartbeat refused", "epoch", e.n, "err", codeError(code))
		return
	}
	h := batch[index]
	switch code {
	case jute.CodeNoNode:
		h.lost(ErrNodeDeleted)
	case jute.CodeNoAuth:
		m.core.log.Warn("the heartbeat may not check the node of a hold: its deletion will only be noticed by a watch", "epoch", e.n, "path", h.path)
		h.mu.Lock()
		h.unlisted = true
		h.mu.Unlock()
	default:
		m.core.log.Warn("heartbeat refused", "epoch", e.n, "path", h.path, "err", codeError(code))
		return
	}
	rest := append(append([]*Hold{}, batch[:index]...), batch[index+1:]...)
	for _, batch := range batches(rest) {
		m.check(e, batch)
	}
}

// committed returns when the session lives by the rule in force. Under the heartbeat rule that takes two committed writes, recent enough to
// last until the heartbeats have begun: those that are missing are made, one after the other. One that was lost with its connection is made again
// on the next: it changes nothing. As with the heartbeats, a server that does not do it right now is asked again, and where the node may not be
// checked the root is.
func (e *epoch) committed(ctx context.Context, path string) error {
	for made, refused := 0, 0; made < settleWrites; made++ {
		e.mu.Lock()
		beating, over := len(e.holds) > 0, e.over
		e.mu.Unlock()
		p := e.plan()
		if over != nil {
			return over // the session has ended, or the client is closing, and pauses with it
		}
		left := e.wire.Validity().Remaining()
		if p.every == 0 || left > 0 && beating || left >= p.covers-p.every {
			return nil
		}
		switch r, err := e.write(ctx, checks(path)); {
		case err != nil:
			return err
		case r.Err != nil && e.isOver(r.Err):
			return e.ending(r.Err)
		case r.Err != nil && transient(replyError(r)):
			made--
		case r.Err != nil:
			return replyError(r)
		default:
			switch _, code := failure(r); {
			case code == jute.CodeOK:
			case code == jute.CodeNoNode:
				return ErrNodeDeleted
			case code == jute.CodeNoAuth && path != "/":
				path = "/"
				made--
			case transient(codeError(code)):
				made--
				refused++
				e.core.pause(ctx, e.core.chance.UpTo(min(10*time.Millisecond<<min(refused, 10), time.Second)))
			default:
				return codeError(code)
			}
		}
	}
	if v := e.wire.Validity(); !v.Valid() && !v.Lapsed() {
		return fmt.Errorf("%w: the servers take too long to commit a write", ErrTimeoutTooShort)
	}
	return nil
}

// write submits a transaction and waits for its reply.
func (e *epoch) write(ctx context.Context, body []byte) (wire.Reply, error) {
	reply := make(chan wire.Reply, 1)
	call := &wire.Call{Op: jute.OpMulti, Body: body, Urgent: true, Patience: e.core.cfg.connectTimeout, Done: func(r wire.Reply) { reply <- r }}
	e.wire.Submit(call)
	select {
	case r := <-reply:
		return r, nil
	case <-ctx.Done():
		unsent := e.wire.Cancel(call, ctx.Err())
		return wire.Reply{}, leftBy(ctx, !unsent)
	}
}

// isOver says whether a transport error means that the session has ended.
func (e *epoch) isOver(err error) bool {
	return e.ctx.Err() != nil || errors.Is(err, wire.ErrSessionLost) || errors.Is(err, wire.ErrClosed)
}

// ending is the cause of what ends with the session: the epoch's own, or, if the manager has not heard yet, what the session layer says.
func (e *epoch) ending(err error) error {
	if cause := context.Cause(e.ctx); cause != nil {
		return cause
	}
	for _, reason := range []error{wire.ErrExpired, wire.ErrLapsed} {
		if errors.Is(err, reason) {
			return sessionLost(reason)
		}
	}
	if errors.Is(err, wire.ErrClosed) {
		return ErrClosed
	}
	return ErrSessionLost
}
