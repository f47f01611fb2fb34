package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/guest"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
)

// sessionManager is the goroutine that opens and ends the epochs. Other goroutines put events into its inbox, as
// functions; run calls them. The manager passes each event of the session to the state machine, and carries out the
// effects that the machine returns. It waits only for its inbox and its timers.
type sessionManager struct {
	holdRequests

	// Only run's goroutine uses these:
	state          stateMachine
	stopped        bool
	openedAt       time.Time // when the current epoch was opened
	shortSessions  int       // how many epochs in a row were opened within shortLived after the one before
	outage         connectionOutage
	grantedTimeout time.Duration // the session timeout of the last connection
}

func newManager(c *clientBase) *sessionManager {
	m := &sessionManager{state: stateMachine{epoch: 1}, holdRequests: holdRequests{core: c, inbox: flow.NewQueue[func()](),
		heartbeatTimer: time.NewTimer(time.Hour), probeTimer: time.NewTimer(time.Hour)}}
	m.heartbeatTimer.Stop()
	m.probeTimer.Stop()
	return m
}

// run handles events until stop is called.
func (m *sessionManager) run() {
	defer m.heartbeatTimer.Stop()
	defer m.probeTimer.Stop()
	for !m.stopped {
		select {
		case <-m.inbox.More():
			for _, f := range m.inbox.Take() {
				f()
			}
		case <-m.heartbeatTimer.C:
			m.sendHeartbeat()
		case <-m.probeTimer.C:
			m.probeStandalone(m.core.latestEpoch())
		}
	}
}

func (m *sessionManager) stop() { m.inbox.Put(func() { m.stopped = true }) }

// applyInput passes an input to the state machine and carries out the effects. server is the server of the event, and
// why the reason for a loss; both are for reports. fences are the sessions to close before the next session is
// announced.
func (m *sessionManager) applyInput(in machineInput, server string, why error, fences []wire.Fence) {
	var todo []machineEffect
	m.state, todo = m.state.next(in)
	e := m.core.latestEpoch()
	for _, do := range todo {
		switch do.kind {
		case doAttach:
			e.changeState(func() { e.attached, e.suspended = true, false })
		case doSuspend:
			e.endHoldsOnSuspension()
		case doLose:
			m.endEpoch(e, why)
		case doOpen:
			if err := m.openEpoch(do.change.Epoch, e, fences); err != nil {
				m.core.log.Error("cannot open a session; the client stays without a session",
					"epoch", do.change.Epoch, "err", err)
			}
		case doAnnounce:
			m.announceState(do.change, server, why)
		case doClose:
			e.endAllHolds(ErrClosed)
		}
	}
}

func (m *sessionManager) announceState(change StateChange, server string, why error) {
	c := m.core
	c.board.announce(change)
	if f := c.cfg.onState; f != nil {
		c.hooks.enqueue(func() { f(change) })
	}
	if len(c.cfg.observer) > 0 {
		report := StateReport{
			StateChange: change, Server: server, Reason: wire.Reason(why), Err: plain.Error(why),
		}
		c.hooks.enqueue(func() { c.cfg.observer.reportState(report) })
	}
}

// endEpoch ends an epoch whose session is lost: first its holds, then its context. It does not wait for the session's
// goroutines to end.
func (m *sessionManager) endEpoch(e *sessionEpoch, why error) {
	e.endAllHolds(why)
	e.cancel(why)
	m.heartbeatTimer.Stop()
	m.unchecked = nil
	m.core.spawn(func() {
		e.wire.Abort(why)
		e.wire.Wait()
	})
}

// openEpoch begins epoch n. old is the previous epoch, nil for the first.
func (m *sessionManager) openEpoch(n int64, old *sessionEpoch, fences []wire.Fence) error {
	c := m.core
	e := &sessionEpoch{number: n, core: c, holds: map[*Hold]struct{}{}, suspended: true,
		onFirstHold: func() { m.inbox.Put(m.scheduleHeartbeat) }}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	cfg := wire.Config{
		Servers: c.serverList(), Spread: c.cfg.spread, Away: m.outage.elapsedTime(time.Now()),
		Timeout:        c.cfg.sessionTimeout,
		ConnectTimeout: c.cfg.dialTimeLimit(), ReadOnly: c.cfg.readOnly,
		Auth: wire.Auth{Credentials: c.cfg.presentedCredentials(), Login: loginStarter(c.cfg.sasl, c.cfg.saslName),
			LoginName: loginName(c.cfg.sasl, c.cfg.saslName)},
		Limits: wire.Limits{MaxFrame: c.cfg.maxFrame, MaxReply: c.cfg.maxReply, Window: c.cfg.window},
		Fences: fences, Logger: c.log.With("epoch", n), Chance: c.chance.Fork(uint64(n)),
		Assume: func(timeout time.Duration, alone bool) wire.Servers {
			return c.cfg.planFor(timeout, alone).servers
		},
		Hooks: wire.Hooks{
			OnEvent: func(ev wire.Event) { m.inbox.Put(func() { m.onSessionEvent(e, ev) }) },
			OnLoss:  e.endLostHolds, OnPong: c.pongReporter(),
		},
	}
	var notBefore time.Time
	if old != nil {
		cfg.LastZxid = old.wire.MaxZxid()
		notBefore = time.Now().Add(m.reopenDelay())
		if len(fences) > 0 { // else there is no session to close, and the grace would protect no holder
			notBefore = notBefore.Add(c.cfg.graceAfterLoss(old.wire.Timeout(), old.wire.Err()))
		}
	}
	cfg.Dial = c.epochDialer(notBefore)
	session, err := wire.Open(cfg)
	if err != nil {
		e.cancel(err)
		return err
	}
	e.wire = session
	common := guest.Config{Server: cfg.Servers[0], Timeout: cfg.Timeout, MaxFrame: cfg.MaxFrame, Logger: cfg.Logger}
	e.conn = sync.OnceValue(func() *zk.Conn {
		g := guest.New(session, common)
		return g.Connect(session.Invite(g))
	})
	if !c.setCurrentEpoch(e) {
		e.cancel(ErrClosed)
		session.Abort(ErrClosed) // Close has the previous epoch, and returns ErrUnacknowledged for its lost session
		session.Wait()
		return nil
	}
	session.SetServers(c.servers.currentServers()) // a change since serverList, above, was sent to the previous epoch
	m.probeStandalone(e)
	return nil
}

// reopenDelay returns how long to wait before the next session is opened. It is zero unless sessions end in quick
// succession, for example because a server reports each of them expired.
func (m *sessionManager) reopenDelay() time.Duration {
	now := time.Now()
	if m.shortSessions++; now.Sub(m.openedAt) > shortLived {
		m.shortSessions = 0
	}
	if m.openedAt = now; m.shortSessions < 3 {
		return 0
	}
	return m.core.chance.UpTo(min(10*time.Millisecond<<min(m.shortSessions, 10), 5*time.Second))
}

// shortLived is the longest time between the openings of two sessions after which reopenDelay counts the earlier one as
// short.
const shortLived = 10 * time.Second

// epochDialer returns the dialer of one epoch. It waits until notBefore, and uses TLS if configured.
func (c *clientBase) epochDialer(notBefore time.Time) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := sleepUntil(ctx, notBefore); err != nil {
			return nil, fmt.Errorf("%w: %w", errTooEarly, err)
		}
		var conn net.Conn
		exposed, err := false, apart.ErrNoReturn
		apart.Call(func() {
			if conn, err = c.cfg.dialServer(ctx, network, addr, c.log); err == nil {
				exposed = isUnprotected(conn)
			}
		})
		if err != nil {
			return nil, err
		}
		if exposed && len(c.cfg.credentials) > 0 && c.clearTextLogged.CompareAndSwap(false, true) {
			c.log.Warn("sending the credentials of WithAuth, passwords included, unencrypted: use WithTLS "+
				"or WithTLSFiles", "server", addr)
		}
		return conn, nil
	}
}

// isUnprotected reports whether a connection leaves the machine unencrypted. For a connection of a user's dialer that
// is a guess: it may have an encryption of its own.
func isUnprotected(conn net.Conn) bool {
	if _, encrypted := conn.(*tls.Conn); encrypted {
		return false
	}
	to, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !to.IP.IsLoopback()
}

// errTooEarly is the error of an attempt that ended while it waited for notBefore: no server has failed.
var errTooEarly = errors.New("not connecting until the previous session has ended")

func sleepUntil(ctx context.Context, t time.Time) error {
	wait := time.Until(t)
	if t.IsZero() || wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *sessionManager) onSessionEvent(e *sessionEpoch, ev wire.Event) {
	c := m.core
	if e.number != m.state.epoch {
		return
	}
	log := c.log.With("epoch", e.number, "session", sessionIDValue(ev.SessionID), "server", ev.Server)
	switch ev.Kind {
	case wire.Connected:
		c.connectFailure.recordFailure("", nil)
		m.recordConnected(log, ev)
		in := machineInput{inConnected, e.number}
		if ev.ReadOnly {
			in.kind = inReadOnly
		}
		m.applyInput(in, ev.Server, nil, nil)
		c.signalConnection(e.wire)
		m.scheduleHeartbeat()
	case wire.Disconnected:
		ev.Err = wrapRefusal(c.addDialHint(ev.Err))
		c.connectFailure.recordFailure(ev.Server, ev.Err)
		if m.outage.beginOutage(time.Now()); !m.state.closed {
			log.Warn("connection lost, session suspended; reconnecting", "err", ev.Err)
		}
		m.applyInput(machineInput{inDisconnected, e.number}, ev.Server, ev.Err, nil)
		m.probeStandalone(e)
	case wire.AuthFailed:
		ev.Err = wrapRefusal(ev.Err)
		m.logConnectFailure(log, slog.LevelError, "authentication failed; retrying", ev)
		e.changeState(func() {}) // wakes SessionSoon, which fails while every server refuses
	case wire.Failed:
		if !errors.Is(ev.Err, errTooEarly) {
			ev.Err = wrapRefusal(c.addDialHint(ev.Err))
			m.logConnectFailure(log, slog.LevelWarn, "cannot connect; retrying", ev)
		}
	case wire.Regressed:
		log.Warn("every server's last zxid is below the highest that this client has seen: the data was wiped or " +
			"restored; fencing tokens may be smaller from now on")
	case wire.Lost:
		m.onSessionLost(log, e, ev)
	}
}

func (m *sessionManager) onSessionLost(log *slog.Logger, e *sessionEpoch, ev wire.Event) {
	why := e.endCause()
	if m.state.closed {
		e.cancel(why) // Close stops waiting for clean-ups: the servers delete the session's nodes
		return
	}
	log.Warn("session lost, with all its holds; opening a new session", "err", ev.Err)
	fences := e.wire.Unfenced()
	if e.wire.Agreed() {
		// After twice the session timeout no request of the session is in flight any more: one timeout is for the last
		// request, which may reach a server that late, and one for that server, which then keeps the session by its own
		// clock.
		longest, grace := 2*e.wire.Timeout(), m.core.cfg.graceAfterLoss(e.wire.Timeout(), ev.Err)
		if errors.Is(ev.Err, wire.ErrExpired) {
			// A leader that has lost its quorum may report a session expired, although the quorum has not committed
			// that. But it stops within the bound.
			longest = min(longest, m.core.cfg.bound)
		}
		id, password := e.wire.Identity()
		fences = append(fences, wire.Fence{
			SessionID: id, Password: password, Until: time.Now().Add(longest + grace),
		})
	}
	m.applyInput(machineInput{inLost, e.number}, ev.Server, why, fences)
}

func (m *sessionManager) recordConnected(log *slog.Logger, ev wire.Event) {
	attributes := []any{"timeout", ev.Timeout, "readOnly", ev.ReadOnly, "reattached", ev.Reattached}
	if away := m.outage.endOutage(time.Now()); away > 0 {
		attributes = append(attributes, "away", away.Round(time.Millisecond))
	}
	log.Info("connected", attributes...)
	requested := m.core.cfg.sessionTimeout
	if m.core.cfg.timeoutGiven && ev.Timeout < requested && ev.Timeout != m.grantedTimeout {
		log.Warn("the server grants a shorter session timeout than asked for: "+
			"its maxSessionTimeout is the limit",
			"asked", requested, "granted", ev.Timeout)
	}
	m.grantedTimeout = ev.Timeout
}

// logConnectFailure logs a failed attempt to connect if connectionOutage selects it: otherwise an outage would fill the
// log. Package wire logs every attempt at DEBUG.
func (m *sessionManager) logConnectFailure(log *slog.Logger, level slog.Level, what string, ev wire.Event) {
	m.core.connectFailure.recordFailure(ev.Server, ev.Err)
	now := time.Now()
	if m.outage.recordAttempt(now, ev.Server, failureReason(ev.Server, ev.Err)) && !m.state.closed {
		log.Log(context.Background(), level, what, "attempts", m.outage.attempts,
			"away", now.Sub(m.outage.since).Round(time.Millisecond), "err", ev.Err)
	}
}

// wrapRefusal wraps a server's refusal in its exported error.
func wrapRefusal(err error) error {
	switch {
	case errors.Is(err, wire.ErrAuthFailed):
		return withSentinel(ErrAuthFailed, err)
	case errors.Is(err, wire.ErrOpensNoSessions):
		return withSentinel(ErrNotReadOnly, err)
	case errors.Is(err, wire.ErrProtocol):
		return withSentinel(ErrMalformedReply, err)
	}
	return err
}

// addDialHint adds to a connection's error what may be wrong with the configuration.
func (c *clientBase) addDialHint(err error) error {
	if errors.Is(err, wire.ErrHungUp) && !c.cfg.usesEncryption() {
		return fmt.Errorf("%w (perhaps the server is not serving yet, or its secureClientPort was given, "+
			"which needs WithTLS)", err)
	}
	return wrapTLSError(err)
}

func sessionIDValue(id int64) slog.Value { return slog.StringValue(fmt.Sprintf("0x%x", uint64(id))) }
