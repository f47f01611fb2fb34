package framework

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

const (
	// batchMaxNodes and batchMaxBytes bound one heartbeat transaction; further nodes go into another transaction.
	batchMaxNodes = 128
	batchMaxBytes = 64 << 10
	// heartbeatMaxNodes bounds how many nodes one heartbeat checks; more take turns. One transaction proves that the
	// session lives, however many holds it has.
	heartbeatMaxNodes = 8 * batchMaxNodes
)

// holdRequests makes the requests that keep the holds safe, on the manager's goroutine: heartbeats, and the question
// whether the server stands alone. A heartbeat is a transaction that checks the nodes of the holds through the quorum.
// It proves that the session lives (the session layer counts committed writes by itself), and it fails when a node is
// gone. The session layer decides when one is due: every T/6 under the heartbeat rule, else once after a rest.
type holdRequests struct {
	core           *clientBase
	inbox          *flow.Queue[func()] // of the manager
	heartbeatTimer *time.Timer         // the next heartbeat; stopped if none is due
	unchecked      []*Hold             // whose turn in a heartbeat is still to come
	probeTimer     *time.Timer         // when to ask the server again whether it stands alone
}

// scheduleHeartbeat sets the time of the next heartbeat. If none is due, it looks again later: after a stalled link
// one may be.
func (m *holdRequests) scheduleHeartbeat() {
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
func (m *holdRequests) sendHeartbeat() {
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
func (m *holdRequests) nextHoldsToCheck(e *sessionEpoch) []*Hold {
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

func (m *holdRequests) checkNodes(e *sessionEpoch, batch []*Hold) {
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
func (m *holdRequests) onCheckFailed(e *sessionEpoch, batch []*Hold, index int, code int32) {
	if index < 0 || index >= len(batch) {
		m.core.log.Warn("the reply to a heartbeat is an error; the session expires unless a later heartbeat succeeds",
			"epoch", e.number, "err", codeError(code))
		return
	}
	h := batch[index]
	switch code {
	case jute.CodeNoNode:
		h.loseHold(ErrNodeDeleted)
	case jute.CodeNoAuth:
		m.core.log.Warn("no permission to check our own hold's node in heartbeats: only a watch will report "+
			"its deletion", "epoch", e.number, "path", h.path)
		h.mu.Lock()
		h.uncheckable = true
		h.mu.Unlock()
	default:
		m.core.log.Warn("the reply to a heartbeat is an error; the session expires unless a later heartbeat succeeds",
			"epoch", e.number, "path", h.path, "err", codeError(code))
		return
	}
	rest := append(append([]*Hold{}, batch[:index]...), batch[index+1:]...)
	for _, batch := range batchHolds(rest) {
		m.checkNodes(e, batch)
	}
}

// configPath is the node with the list of an ensemble's members. It is outside every chroot. Which rule keeps holds
// safe depends on whether the server stands alone: the manager reads configPath once per connection.
const configPath = "/zookeeper/config"

// probeStandalone asks the server whether it is standalone, once per connection. The question goes ahead of
// everything else that waits for the connection.
func (m *holdRequests) probeStandalone(e *sessionEpoch) {
	m.probeTimer.Stop()
	if e.probing || e.ctx.Err() != nil {
		return
	}
	e.probing = true
	call := readCall(jute.OpGetData, configPath)
	call.Urgent = true
	call.Done = func(r wire.Reply) {
		// The answer is judged here and not later: it must not be taken for an answer on the next connection.
		again := r.Err == nil && e.wire.Validity().RecordVerdict(standaloneVerdict(r))
		m.inbox.Put(func() { m.onProbeReply(e, r.Err, again) })
	}
	e.wire.Submit(call)
}

// onProbeReply continues after the answer to probeStandalone, or its loss. After a passing refusal it asks again,
// after a pause.
func (m *holdRequests) onProbeReply(e *sessionEpoch, err error, again bool) {
	e.probing = false
	switch {
	case e.isEndError(err):
		return
	case err != nil:
		m.probeStandalone(e) // waits for the next connection
		return
	case again:
		e.probeRefusals++
		m.probeTimer.Reset(m.core.refusalPause(e.probeRefusals))
	default:
		e.probeRefusals = 0
		m.enforceRule(e)
	}
	e.changeState(func() {}) // wakes the callers that wait until the rule is known
	m.scheduleHeartbeat()
}

// standaloneVerdict reads the answer to a getData of configPath. A server that has no such node, or does not show
// it, is taken for a member of an ensemble. A server that cannot answer right now is asked again.
func standaloneVerdict(r wire.Reply) wire.Verdict {
	if r.Err != nil || isTransient(codeError(r.Code)) {
		return wire.Later
	}
	var config jute.GetDataResponse
	if r.Code != jute.CodeOK || jute.Unmarshal(r.Body, &config) != nil {
		return wire.Member
	}
	for line := range strings.Lines(string(config.Data)) {
		if strings.HasPrefix(strings.TrimSpace(line), "server.") {
			return wire.Member
		}
	}
	return wire.Standalone
}

// enforceRule logs the rule in force if it has changed, and ends the holds if the rule does not allow any.
func (m *holdRequests) enforceRule(e *sessionEpoch) {
	p, known := e.currentPlan()
	if !known {
		return // the client has another connection by now, whose server has not answered yet
	}
	if p.refused != nil {
		endHoldsByClient(p.refused, e.currentHolds()...)
	}
	if p.servers == e.loggedServers {
		return
	}
	e.loggedServers = p.servers
	log := m.core.log.With("epoch", e.number, "rule", p.ruleInForce().String(), "timeout", e.wire.Timeout(),
		"bound", p.bound, "margin", p.servers.Margin, "heartbeat", p.heartbeat)
	if p.refused != nil {
		log.Warn("cannot grant holds: the session timeout is too short", "err", p.refused)
	} else {
		log.Info("safety rule of holds changed")
	}
}

// currentPlan returns the plan of the rule in force. known is true once the server of this connection has answered
// whether it is standalone; until then a plan that refuses holds may soon change.
func (e *sessionEpoch) currentPlan() (p safetyPlan, known bool) {
	standing, cfg := e.wire.Validity().Standing(), &e.core.cfg
	timeout := cmp.Or(standing.Timeout, cfg.sessionTimeout) // granted, or requested while there is no session
	return cfg.planFor(timeout, standing.Standalone && standing.Current), standing.Current
}
