package framework

import (
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Heartbeats: transactions that check the nodes of the holds through the quorum. A heartbeat proves that the
// session lives (the session layer counts committed writes by itself), and it fails when a node is gone. When one is due
// is the session layer's decision: every T/6 under the heartbeat rule, else once after a rest.

const (
	// batchMaxNodes and batchMaxBytes bound one heartbeat transaction; further nodes go into another transaction.
	batchMaxNodes = 128
	batchMaxBytes = 64 << 10
	// heartbeatMaxNodes bounds how many nodes one heartbeat checks; more take turns. One transaction proves that the
	// session lives, however many holds it has.
	heartbeatMaxNodes = 8 * batchMaxNodes
)

// scheduleHeartbeat sets the time of the next heartbeat. If none is due, it looks again later: after a stalled link
// one may be.
func (m *sessionManager) scheduleHeartbeat() {
	e := m.core.latestEpoch()
	in, due := e.wire.Validity().WriteDue()
	switch {
	case due:
		m.heartbeatTimer.Reset(in)
	case len(e.currentHolds()) > 0:
		m.heartbeatTimer.Reset(e.heartbeatInterval())
	default:
		m.heartbeatTimer.Stop()
	}
}

// heartbeatInterval returns the time between two heartbeats, if more than one is needed. It takes no lock that
// others hold for long.
func (e *sessionEpoch) heartbeatInterval() time.Duration {
	return e.wire.Validity().Standing().Timeout / heartbeats
}

// sendHeartbeat sends a heartbeat if one is due. It sets the time of the next as if this one had no answer, which
// scheduleHeartbeat corrects when the answer comes.
func (m *sessionManager) sendHeartbeat() {
	e := m.core.latestEpoch()
	if in, due := e.wire.Validity().WriteDue(); !due || in > 0 {
		m.scheduleHeartbeat()
		return
	}
	m.heartbeatTimer.Reset(e.heartbeatInterval())
	if e.isConnected() {
		for _, batch := range batchHolds(m.nextHoldsToCheck(e)) {
			m.checkNodes(e, batch)
		}
	}
}

// nextHoldsToCheck returns the holds that a heartbeat checks: all of the epoch's, or as many as it may, those first
// that had no turn yet.
func (m *sessionManager) nextHoldsToCheck(e *sessionEpoch) []*Hold {
	m.unchecked = slices.DeleteFunc(m.unchecked, func(h *Hold) bool { return h.endCause() != nil })
	if len(m.unchecked) == 0 {
		m.unchecked = e.currentHolds()
	}
	n := min(len(m.unchecked), heartbeatMaxNodes)
	now := m.unchecked[:n]
	m.unchecked = m.unchecked[n:]
	return now
}

// batchHolds divides the holds among transactions. It leaves out a hold whose node the session has no permission to
// check. If no other hold is left, it returns one empty batch; checkNodes then checks the root.
func batchHolds(holds []*Hold) (out [][]*Hold) {
	var batch []*Hold
	size := 0
	for _, h := range holds {
		h.mu.Lock()
		skip := h.uncheckable || h.cause != nil
		h.mu.Unlock()
		if skip {
			continue
		}
		if len(batch) == batchMaxNodes || len(batch) > 0 && size+len(h.path) > batchMaxBytes {
			out, batch, size = append(out, batch), nil, 0
		}
		batch, size = append(batch, h), size+len(h.path)+32
	}
	if len(batch) > 0 || len(out) == 0 && len(holds) > 0 {
		out = append(out, batch)
	}
	return out
}

func (m *sessionManager) checkNodes(e *sessionEpoch, batch []*Hold) {
	paths := make([]string, 0, len(batch))
	for _, h := range batch {
		paths = append(paths, h.path)
	}
	if len(paths) == 0 {
		paths = []string{"/"}
	}
	e.wire.Submit(&wire.Call{
		Op: jute.OpMulti, Body: jute.Checks(paths...), Urgent: true, Patience: e.heartbeatInterval(),
		Done: func(r wire.Reply) {
			failed, code := failedCheck(r)
			switch {
			case code != jute.CodeOK:
				m.inbox.Put(func() { m.onCheckFailed(e, batch, failed, code) })
			case r.Err == nil:
				m.inbox.Put(m.scheduleHeartbeat)
				if len(m.core.cfg.observer) > 0 {
					m.core.reportRoundTrip(RoundTrip{"heartbeat", time.Since(r.Sent)})
				}
			}
		},
	})
}

// failedCheck returns the index of the check that failed, and its code; CodeOK if none failed or there is no reply.
func failedCheck(r wire.Reply) (index int, code int32) {
	if r.Err != nil {
		return 0, jute.CodeOK
	}
	res := jute.MultiResponse{Asked: batchMaxNodes}
	if jute.Unmarshal(r.Body, &res) == nil {
		if index, code = failedOperation(res.Results); index >= 0 {
			return index, code
		}
	}
	return -1, r.Code
}

// failedOperation returns the operation that made a transaction fail, and why; -1 if none did.
func failedOperation(results []jute.MultiResult) (index int, code int32) {
	for i, one := range results {
		// Those before the failed one have code 0, those after it RuntimeInconsistency.
		if one.Op == jute.OpError && one.Err != jute.CodeOK && one.Err != jute.CodeRuntimeInconsistency {
			return i, one.Err
		}
	}
	return -1, jute.CodeOK
}

// onCheckFailed handles a heartbeat whose check at index failed. It ends the hold if its node is gone, then checks
// the other nodes again: a failed transaction does not count as a heartbeat.
func (m *sessionManager) onCheckFailed(e *sessionEpoch, batch []*Hold, index int, code int32) {
	if index < 0 || index >= len(batch) {
		m.core.log.Warn("the reply to a heartbeat is an error; the session expires unless a later heartbeat succeeds",
			"epoch", e.n, "err", codeError(code))
		return
	}
	h := batch[index]
	switch code {
	case jute.CodeNoNode:
		h.loseHold(ErrNodeDeleted)
	case jute.CodeNoAuth:
		m.core.log.Warn("no permission to check our own hold's node in heartbeats: only a watch will report "+
			"its deletion", "epoch", e.n, "path", h.path)
		h.mu.Lock()
		h.uncheckable = true
		h.mu.Unlock()
	default:
		m.core.log.Warn("the reply to a heartbeat is an error; the session expires unless a later heartbeat succeeds",
			"epoch", e.n, "path", h.path, "err", codeError(code))
		return
	}
	rest := append(append([]*Hold{}, batch[:index]...), batch[index+1:]...)
	for _, batch := range batchHolds(rest) {
		m.checkNodes(e, batch)
	}
}
