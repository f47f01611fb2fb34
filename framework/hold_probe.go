package framework

import (
	"cmp"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Which rule keeps holds safe depends on whether the server stands alone. The manager asks it once per
// connection, by reading configPath.

// configPath is the node with the list of an ensemble's members. It is outside every chroot.
const configPath = "/zookeeper/config"

// probeStandalone asks the server whether it is standalone, once per connection. The question goes ahead of
// everything else that waits for the connection.
func (m *sessionManager) probeStandalone(e *sessionEpoch) {
	m.probeTimer.Stop()
	if e.probing || e.ctx.Err() != nil {
		return
	}
	e.probing = true
	call := readCall(jute.OpGetData, configPath)
	call.Urgent = true
	call.Done = func(r wire.Reply) {
		// The answer is judged here and not later: it must not be taken for an answer on the next connection.
		again := r.Err == nil && e.wire.Validity().Answered(standaloneVerdict(r))
		m.inbox.Put(func() { m.onProbeReply(e, r.Err, again) })
	}
	e.wire.Submit(call)
}

// onProbeReply continues after the answer to probeStandalone, or its loss. After a passing refusal it asks again,
// after a pause.
func (m *sessionManager) onProbeReply(e *sessionEpoch, err error, again bool) {
	e.probing = false
	switch {
	case e.isEndError(err):
		return
	case err != nil:
		m.probeStandalone(e) // waits for the next connection
		return
	case again:
		e.refusals++
		m.probeTimer.Reset(m.core.refusalPause(e.refusals))
	default:
		e.refusals = 0
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
	return wire.Alone
}

// enforceRule logs the rule in force if it has changed, and ends the holds if the rule does not allow any.
func (m *sessionManager) enforceRule(e *sessionEpoch) {
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
	log := m.core.log.With("epoch", e.n, "rule", p.ruleInForce().String(), "timeout", e.wire.Timeout(),
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
	return cfg.planFor(timeout, standing.Alone && standing.Asked), standing.Asked
}

// refusalPause returns how long to wait after the nth passing refusal in a row.
func (c *clientCore) refusalPause(n int) time.Duration {
	return c.chance.UpTo(min(10*time.Millisecond<<min(n, 10), time.Second))
}
