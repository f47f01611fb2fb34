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
	// heartbeatMaxNodes bounds the number of nodes that one heartbeat checks; if there are more, they take turns. For the
	// validity of the holds one transaction is enough, however many holds the session has.
	heartbeatMaxNodes = 8 * batchMaxNodes
)

// holdRequests makes the requests that keep the holds safe, on the manager's goroutine: heartbeats, and the read that
// shows whether the server is standalone. A heartbeat is a transaction that checks the nodes of the holds. Being a write,
// it has to be committed by a quorum, and so proves that the session has not expired (the session layer notes that in
// its Validity); and it fails when a node is missing. Validity decides when a heartbeat is due: every T/6 under
// RuleHeartbeat; otherwise once for a hold that begins after a time without holds, a reconnect or a stalled connection.
type holdRequests struct {
	core           *clientBase
	inbox          *flow.Queue[func()] // of the manager
	heartbeatTimer *time.Timer         // the next heartbeat; stopped if there are no holds
	unchecked      []*Hold             // the holds that still have to be checked in this round of turns
	probeTimer     *time.Timer         // the next probeStandalone, after a passing refusal
}

// scheduleHeartbeat sets the time of the next heartbeat. If none is due, it sets the time of another look: one may become
// due after a stalled connection.
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

// heartbeatInterval returns the time between two heartbeats under RuleHeartbeat.
func (e *sessionEpoch) heartbeatInterval() time.Duration {
	return e.wire.Validity().Standing().Timeout / heartbeatsPerTimeout
}

// sendHeartbeat sends a heartbeat if one is due. It sets the time of the next one as if no reply would come; when the
// reply comes, scheduleHeartbeat corrects it.
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

// nextHoldsToCheck returns the holds that a heartbeat checks: at most heartbeatMaxNodes, in turn.
func (m *holdRequests) nextHoldsToCheck(e *sessionEpoch) []*Hold {
	m.unchecked = slices.DeleteFunc(m.unchecked, func(h *Hold) bool { return h.endCause() != nil })
	if len(m.unchecked) == 0 {
		m.unchecked = e.currentHolds()
	}
	n := min(len(m.unchecked), heartbeatMaxNodes)
	next := m.unchecked[:n]
	m.unchecked = m.unchecked[n:]
	return next
}

// batchHolds divides the holds into batches, one for each transaction. It leaves out holds that have ended, and holds
// whose nodes the session has no permission to check. If no hold is left, it returns one empty batch, for which
// checkNodes checks the root.
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
		if len(batch) == batchMaxNodes || len(batch) > 0 && size+len(h.fullPath) > batchMaxBytes {
			out, batch, size = append(out, batch), nil, 0
		}
		batch, size = append(batch, h), size+len(h.fullPath)+32 // 32 is more than the other fields of a check need
	}
	if len(batch) > 0 || len(out) == 0 && len(holds) > 0 {
		out = append(out, batch)
	}
	return out
}

// checkNodes sends one transaction of a heartbeat.
func (m *holdRequests) checkNodes(e *sessionEpoch, batch []*Hold) {
	paths := make([]string, 0, len(batch))
	for _, h := range batch {
		paths = append(paths, h.fullPath)
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

// failedCheck returns the index and the code of the check that made a transaction fail. The code is CodeOK if no check
// failed, or if there is no reply. The index is -1 if the server refused the transaction as a whole.
func failedCheck(r wire.Reply) (index int, code int32) {
	if r.Err != nil {
		return 0, jute.CodeOK
	}
	res := jute.MultiResponse{Asked: batchMaxNodes} // the limit for the results in a reply
	if jute.Unmarshal(r.Body, &res) == nil {
		if index, code = failedOperation(res.Results); index >= 0 {
			return index, code
		}
	}
	return -1, r.Code
}

// failedOperation returns the index and the code of the operation that made a transaction fail; -1 and CodeOK if none
// did.
func failedOperation(results []jute.MultiResult) (index int, code int32) {
	for i, one := range results {
		// In a failed transaction the operations before the failed one have CodeOK, those after it RuntimeInconsistency.
		if one.Op == jute.OpError && one.Err != jute.CodeOK && one.Err != jute.CodeRuntimeInconsistency {
			return i, one.Err
		}
	}
	return -1, jute.CodeOK
}

// onCheckFailed handles a heartbeat whose check at index failed; with index -1 the server has refused the transaction as a
// whole. If the node is missing, it ends the hold. Then it checks the nodes of the other holds: the failed transaction has
// shown nothing of those behind index. It has extended the session all the same, because it was committed.
func (m *holdRequests) onCheckFailed(e *sessionEpoch, batch []*Hold, index int, code int32) {
	switch {
	case index < 0:
		m.core.log.Warn("the reply to a heartbeat is an error; the session expires unless a later heartbeat succeeds",
			"epoch", e.number, "err", codeError(code))
		return
	case index >= len(batch):
		return // the check of the root
	}
	h := batch[index]
	if code == jute.CodeNoNode {
		h.loseHold(ErrNodeDeleted)
	} else {
		m.core.log.Warn("our own hold's node cannot be checked in heartbeats: only a watch will report its deletion",
			"epoch", e.number, "path", h.fullPath, "err", codeError(code))
		h.mu.Lock()
		h.uncheckable = true
		h.mu.Unlock()
	}
	rest := append(append([]*Hold{}, batch[:index]...), batch[index+1:]...)
	for _, batch := range batchHolds(rest) {
		m.checkNodes(e, batch)
	}
}

// configPath is the node with the list of an ensemble's members. It is outside every chroot.
const configPath = "/zookeeper/config"

// probeStandalone reads configPath, to find out whether the server of this connection is standalone: the rule in force
// depends on that. The read is sent ahead of all queued requests, once per connection, and again after a passing refusal.
func (m *holdRequests) probeStandalone(e *sessionEpoch) {
	m.probeTimer.Stop()
	if e.probing || e.ctx.Err() != nil {
		return
	}
	e.probing = true
	call := readCall(jute.OpGetData, configPath)
	call.Urgent = true
	call.Done = func(r wire.Reply) {
		// Recorded here, before another connection can begin: the verdict is about the server of this connection.
		again := r.Err == nil && e.wire.Validity().RecordVerdict(standaloneVerdict(r))
		m.inbox.Put(func() { m.onProbeReply(e, r.Err, again) })
	}
	e.wire.Submit(call)
}

// onProbeReply handles the reply to probeStandalone, or its loss. With again, the server has refused the read for a
// passing reason, and the next probe follows after a pause.
func (m *holdRequests) onProbeReply(e *sessionEpoch, err error, again bool) {
	e.probing = false
	switch {
	case e.isEndError(err):
		return
	case err != nil:
		m.probeStandalone(e) // is sent on the next connection
		return
	case again:
		e.probeRefusals++
		m.probeTimer.Reset(m.core.refusalPause(e.probeRefusals))
	default:
		e.probeRefusals = 0
		m.enforceRule(e)
	}
	e.changeState(func() {}) // wakes awaitRule
	m.scheduleHeartbeat()
}

// standaloneVerdict judges the reply to a getData of configPath. If the node is missing, or the client may not read it,
// the server counts as a member of an ensemble, which is the safe assumption.
func standaloneVerdict(r wire.Reply) wire.Verdict {
	if r.Err != nil || Retryable(codeError(r.Code)) {
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

// enforceRule ends the holds if the rule in force allows none, and logs the rule if it has changed.
func (m *holdRequests) enforceRule(e *sessionEpoch) {
	p, known := e.currentPlan()
	if !known {
		return // by now there is another connection, whose probe has no reply yet
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

// currentPlan returns the plan for the session timeout and the connected server. known is true when that server is known
// to be standalone, or to be a member; until then a plan that refuses holds may soon change.
func (e *sessionEpoch) currentPlan() (p safetyPlan, known bool) {
	standing, cfg := e.wire.Validity().Standing(), &e.core.cfg
	timeout := cmp.Or(standing.Timeout, cfg.sessionTimeout) // granted, or requested while there is no session
	return cfg.planFor(timeout, standing.Standalone && standing.Current), standing.Current
}
