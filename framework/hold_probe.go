package framework

import (
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Which rule keeps holds safe depends on whether the server stands alone. The manager asks it once per connection, by
// reading configPath.

// configPath is the node in which an ensemble lists its members. It stands outside every chroot.
const configPath = "/zookeeper/config"

// probe asks whether the server stands alone, once per connection: ahead of all that waits for that connection.
func (m *manager) probe(e *epoch) {
	m.ask.Stop()
	if e.probing || e.ctx.Err() != nil {
		return
	}
	e.probing = true
	call := dataCall(configPath)
	call.Urgent = true
	call.Done = func(r wire.Reply) {
		// The answer is judged here: it must not be taken for the next connection's.
		again := r.Err == nil && e.wire.Validity().Answered(standsAlone(r))
		m.inbox.Put(func() { m.probed(e, r.Err, again) })
	}
	e.wire.Submit(call)
}

// probed goes on after an answer, or a loss of it. A refusal that passes is asked again, after a pause.
func (m *manager) probed(e *epoch, err error, again bool) {
	e.probing = false
	switch {
	case e.isOver(err):
		return
	case err != nil:
		m.probe(e) // waits for the next connection
		return
	case again:
		e.refusals++
		m.ask.Reset(m.core.refusalPause(e.refusals))
	default:
		e.refusals = 0
		m.tell(e)
	}
	e.change(func() {}) // wakes those who wait until the rule is known
	m.heartbeat()
}

// refusalPause is how long to wait after the nth refusal in a row that passes.
func (c *core) refusalPause(n int) time.Duration {
	return c.chance.UpTo(min(10*time.Millisecond<<min(n, 10), time.Second))
}

// tell says which rule is in force now, and ends what cannot be held under it.
func (m *manager) tell(e *epoch) {
	p, asked := e.settled()
	if !asked {
		return // there is another connection by now, whose server has not said anything yet
	}
	if p.refused != nil {
		endAll(p.refused, e.held()...)
	}
	if p.rule == e.told {
		return
	}
	e.told = p.rule
	log := m.core.log.With("epoch", e.n, "rule", p.kind().String(), "timeout", e.wire.Timeout(),
		"bound", p.rule.Bound, "margin", p.rule.Margin, "heartbeat", p.every)
	if p.refused != nil {
		log.Warn("nothing can be held", "err", p.refused)
	} else {
		log.Info("safety rule")
	}
}

// standsAlone reads the answer to a getData of configPath. A server that does not show the node, or has none, is taken
// for a member; one that cannot answer right now is asked again.
func standsAlone(r wire.Reply) wire.Verdict {
	if r.Err != nil || transient(codeError(r.Code)) {
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
