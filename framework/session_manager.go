package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
)

// epoch is one ZooKeeper session in the life of a client. There is exactly one live epoch at any time.
type epoch struct {
	n      int64
	core   *core
	wire   *wire.Session
	ctx    context.Context // ends with the session; its cause is ErrSessionLost or ErrClosed
	cancel context.CancelCauseFunc

	// Of the manager's goroutine:
	probing  bool      // a read of configPath is under way
	refusals int       // how many in a row were refused for a reason that passes
	told     wire.Rule // the rule that was logged last

	mu        sync.Mutex    // never held while wire is called
	changed   chan struct{} // closed and replaced when something below changes
	attached  bool          // a member with a quorum has confirmed the session
	suspended bool          // and now none is connected
	over      error         // why nothing can be held any more
	holds     map[*Hold]struct{}
}

// change runs f with the lock held and wakes those who wait for a change.
func (e *epoch) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.changed)
	e.changed = make(chan struct{})
}

// connected says whether the session has a connection to a member with a quorum. Of a loss the epoch knows before it is announced: whoever
// learns of the loss by the end of a hold must not be told that the client is connected.
func (e *epoch) connected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.attached && !e.suspended
}

// held returns the holds.
func (e *epoch) held() []*Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	holds := make([]*Hold, 0, len(e.holds))
	for h := range e.holds {
		holds = append(holds, h)
	}
	return holds
}

// endHolds ends what is held and refuses new holds.
func (e *epoch) endHolds(why error) {
	e.change(func() { e.over = why })
	loseAll(e.held(), why)
}

// lapsed ends what is held as soon as nothing is certain any more, whoever else has to hear of it first. It waits for nobody.
func (e *epoch) lapsed(why error) {
	if errors.Is(why, wire.ErrClosed) {
		why = ErrClosed
	} else {
		why = sessionLost(why)
	}
	loseAll(e.held(), why)
}

// end ends the epoch: first its holds, then its context.
func (e *epoch) end(why error) {
	e.endHolds(why)
	e.cancel(why)
}

// manager is the goroutine that owns the epochs. What happens anywhere is posted to it as a function; it asks the state machine what that
// means and does it. It never waits for anything but the next post.
type manager struct {
	core  *core
	posts posts

	// Of its goroutine only:
	state   machine
	beat    *time.Timer // the next heartbeat, when beating
	beating bool
	ask     *time.Timer // when to ask the server again whether it stands alone
	stopped bool
	opened  time.Time // when the last session was begun
	short   int       // how many in a row were begun soon after the one before
	away    outage
	granted time.Duration // the session timeout of the last connection
}

// posts is an unbounded queue of functions for one goroutine. put never waits.
type posts struct {
	mu    sync.Mutex
	queue []func()
	more  chan struct{} // 1 slot: the queue is not empty
}

func (p *posts) put(f func()) {
	p.mu.Lock()
	p.queue = append(p.queue, f)
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *posts) take() []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	batch := p.queue
	p.queue = nil
	return batch
}

func newManager(c *core) *manager {
	m := &manager{core: c, state: machine{epoch: 1}, beat: time.NewTimer(time.Hour), ask: time.NewTimer(time.Hour)}
	m.beat.Stop()
	m.ask.Stop()
	m.posts.more = make(chan struct{}, 1)
	return m
}

// run ends with stop.
func (m *manager) run() {
	defer m.beat.Stop()
	defer m.ask.Stop()
	for !m.stopped {
		select {
		case <-m.posts.more:
			for _, f := range m.posts.take() {
				f()
			}
		case <-m.beat.C:
			m.heartbeat()
		case <-m.ask.C:
			m.probe(m.core.epochLast())
		}
	}
}

func (m *manager) stop() { m.posts.put(func() { m.stopped = true }) }

// happened feeds the machine and does what it says. server is the one that it is about, why the cause of a loss; fences are the sessions to be closed before the next one is announced.
func (m *manager) happened(in input, server string, why error, fences []wire.Fence) {
	var todo []effect
	m.state, todo = m.state.next(in)
	e := m.core.epochLast()
	for _, do := range todo {
		switch do.kind {
		case doAttach:
			e.change(func() { e.attached, e.suspended = true, false })
		case doSuspend:
			m.suspend(e)
		case doLose:
			m.lose(e, why)
		case doOpen:
			if err := m.open(do.change.Epoch, e, fences); err != nil {
				m.core.log.Error("cannot open a session", "epoch", do.change.Epoch, "err", err)
			}
		case doAnnounce:
			m.core.board.announce(do.change)
			if f := m.core.cfg.onState; f != nil {
				m.core.ops.hooks.put(func() { f(do.change) })
			}
			m.report(do.change, server, why)
		case doClose:
			e.endHolds(ErrClosed)
		}
	}
}

// report tells of a state change.
func (m *manager) report(change StateChange, server string, why error) {
	if m.core.cfg.observer.Active() {
		report := StateReport{StateChange: change, Server: server, Reason: wire.Reason(why), Err: plain.Error(why)}
		m.core.ops.hooks.put(func() { m.core.cfg.observer.state(report) })
	}
}

func (m *manager) suspend(e *epoch) {
	e.change(func() { e.suspended = true })
	var lost []*Hold
	for _, h := range e.held() {
		if h.loss == SuspendedIsLoss && h.Valid() { // else it has ended with the session
			lost = append(lost, h)
		}
	}
	loseAll(lost, ErrSuspended)
}

// lose ends the epoch and lets what remains of its session wind down in the background.
func (m *manager) lose(e *epoch, why error) {
	e.end(why)
	m.stopBeating()
	m.core.spawn(func() {
		e.wire.Abort(why)
		e.wire.Wait()
	})
}

// open begins the epoch n behind old, which is nil for the first.
func (m *manager) open(n int64, old *epoch, fences []wire.Fence) error {
	c := m.core
	e := &epoch{n: n, core: c, changed: make(chan struct{}), holds: map[*Hold]struct{}{}, suspended: true}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	cfg := wire.Config{
		Servers: c.serverList(), Spread: c.cfg.spread, Timeout: c.cfg.sessionTimeout, ConnectTimeout: c.cfg.dialLimit(),
		ReadOnly: c.cfg.readOnly, Credentials: c.cfg.presented(), Login: c.cfg.login(), LoginName: c.cfg.loginName(), MaxFrame: c.cfg.maxFrame, MaxReply: c.cfg.maxReply, Window: c.cfg.window,
		Fences: fences, Logger: c.log.With("epoch", n), Chance: c.chance.Fork(uint64(n)),
		RuleFor: func(timeout time.Duration, alone bool) wire.Rule { return c.cfg.decide(timeout, alone).rule },
		OnEvent: func(ev wire.Event) { m.posts.put(func() { m.session(e, ev) }) }, OnLapse: e.lapsed, OnPong: c.pong(n),
	}
	var notBefore time.Time
	if old != nil {
		cfg.LastZxid = old.wire.MaxZxid()
		notBefore = time.Now().Add(m.breath())
		if len(fences) > 0 { // else nobody can be in the way
			notBefore = notBefore.Add(c.cfg.grace(old.wire.Timeout(), old.wire.Err()))
		}
	}
	cfg.Dial = c.dialer(notBefore)
	session, err := wire.Open(cfg)
	if err != nil {
		e.cancel(err)
		return err
	}
	e.wire = session
	if !c.setEpoch(e) {
		e.cancel(ErrClosed)
		session.Abort(ErrClosed) // Close speaks of the session before, and says that it does not know
		session.Wait()
		return nil
	}
	session.SetServers(c.serverLists()) // it may have changed before this was the current epoch
	m.probe(e)
	return nil
}

// breath is how long to wait before the next session is asked for: no time, unless sessions end one right after the other, as at a server that calls each
// expired.
func (m *manager) breath() time.Duration {
	now := time.Now()
	if m.short++; now.Sub(m.opened) > shortLived {
		m.short = 0
	}
	if m.opened = now; m.short < 3 {
		return 0
	}
	return m.core.chance.UpTo(min(10*time.Millisecond<<min(m.short, 10), 5*time.Second))
}

// shortLived is a session that ends so soon after the one before.
const shortLived = 10 * time.Second

// session handles an event of an epoch's session.
func (m *manager) session(e *epoch, ev wire.Event) {
	c := m.core
	if e.n != m.state.epoch {
		return
	}
	log := c.log.With("epoch", e.n, "session", sessionID(ev.SessionID), "server", ev.Server)
	in := input{epoch: e.n}
	switch ev.Kind {
	case wire.Connected:
		c.trouble.clear()
		m.connected(log, ev)
		if in.kind = inConnected; ev.ReadOnly {
			in.kind = inReadOnly
		}
		m.happened(in, ev.Server, nil, nil)
		c.isBack()
		if standing := e.wire.Validity().Standing(); standing.Known && !standing.Alone {
			m.heartbeat() // else it is known in a moment whether there is need
		}
	case wire.Disconnected:
		ev.Err = refusal(c.readable(ev.Err))
		c.trouble.note(ev.Server, ev.Err)
		if m.away.begins(time.Now()); !m.state.closed {
			log.Warn("disconnected", "err", ev.Err)
		}
		in.kind = inDisconnected
		m.happened(in, ev.Server, ev.Err, nil)
		m.probe(e)
	case wire.AuthFailed:
		ev.Err = refusal(ev.Err)
		c.trouble.note(ev.Server, ev.Err)
		m.tellFailure(log, slog.LevelError, "not authenticated", ev)
		e.change(func() {}) // for who waits no longer when every server refuses
	case wire.Failed:
		if !errors.Is(ev.Err, errTooEarly) {
			ev.Err = refusal(c.readable(ev.Err))
			c.trouble.note(ev.Server, ev.Err)
			m.tellFailure(log, slog.LevelWarn, "cannot connect", ev)
		}
	case wire.Regressed:
		log.Warn("every server is behind what this client has seen: their data was wiped or restored; fencing tokens may be smaller from now on")
	case wire.Lost:
		if !m.state.closed {
			log.Warn("session lost", "err", ev.Err)
		}
		in.kind = inLost
		why := sessionLost(ev.Err)
		fences := e.wire.Unfenced()
		if e.wire.Agreed() {
			// No request of it is under way after twice its timeout: the last that a server may have seen, and that server's own clock.
			left := 2 * e.wire.Timeout()
			if errors.Is(ev.Err, wire.ErrExpired) { // which a leader says before the others have agreed; but it does not lead for long without them
				left = min(left, c.cfg.bound)
			}
			id, password := e.wire.Identity()
			fences = append(fences, wire.Fence{SessionID: id, Password: password, Until: time.Now().Add(left + c.cfg.grace(e.wire.Timeout(), ev.Err))})
		}
		if m.state.closed {
			e.cancel(why) // nobody needs to wait for it any more
			return
		}
		m.happened(in, ev.Server, why, fences)
	}
}

// connected tells of a connection.
func (m *manager) connected(log *slog.Logger, ev wire.Event) {
	told := []any{"timeout", ev.Timeout, "readOnly", ev.ReadOnly, "reattached", ev.Reattached}
	if away := m.away.ends(time.Now()); away > 0 {
		told = append(told, "away", away.Round(time.Millisecond))
	}
	log.Info("connected", told...)
	if asked := m.core.cfg.sessionTimeout; m.core.cfg.timeoutAsked && ev.Timeout < asked && ev.Timeout != m.granted {
		log.Warn("the server grants a shorter session timeout than asked for: its maxSessionTimeout is the limit", "asked", asked, "granted", ev.Timeout)
	}
	m.granted = ev.Timeout
}

// tellFailure tells of an attempt to connect that has failed, if that is news. The session itself has told of each at DEBUG.
func (m *manager) tellFailure(log *slog.Logger, level slog.Level, what string, ev wire.Event) {
	now := time.Now()
	if m.away.failed(now, ev.Server, reasonOf(ev.Server, ev.Err)) && !m.state.closed {
		log.Log(context.Background(), level, what, "attempts", m.away.attempts, "away", now.Sub(m.away.since).Round(time.Millisecond), "err", ev.Err)
	}
}

// sessionLost is how the end of a session is told: ErrSessionLost, with the reason.
func sessionLost(why error) error {
	if why == nil {
		return ErrSessionLost
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, plain.Error(why))
}

// refusal gives a server's refusal its public name.
func refusal(err error) error {
	switch {
	case errors.Is(err, wire.ErrAuthFailed):
		return known(ErrAuthFailed, err)
	case errors.Is(err, wire.ErrNotReadOnly):
		return known(ErrNotReadOnly, err)
	case errors.Is(err, wire.ErrProtocol):
		return known(ErrMalformedReply, err)
	}
	return err
}

// readable says of an error of a connection what to look at.
func (c *core) readable(err error) error {
	if errors.Is(err, wire.ErrHungUp) && c.cfg.tls == nil && c.cfg.tlsFiles == nil {
		return fmt.Errorf("%w (is it not serving yet, or the secureClientPort, which needs WithTLS?)", err)
	}
	return tlsTrouble(err)
}

func sessionID(id int64) slog.Value { return slog.StringValue(fmt.Sprintf("0x%x", uint64(id))) }

// probe asks whether the server stands alone, once per connection: in front of all that waits for that connection.
func (m *manager) probe(e *epoch) {
	m.ask.Stop()
	if e.probing || e.ctx.Err() != nil {
		return
	}
	e.probing = true
	e.wire.Submit(&wire.Call{
		Op: jute.OpGetData, Urgent: true,
		Body: jute.Marshal(&jute.PathWatchRequest{Path: configPath}),
		Done: func(r wire.Reply) {
			again := r.Err == nil && e.wire.Validity().Answered(standsAlone(r)) // here: it must not be taken for the next connection's
			m.posts.put(func() { m.probed(e, r.Err, again) })
		},
	})
}

// probed goes on after the question whether the server stands alone was answered, or not. A refusal that passes is asked again, after a pause.
func (m *manager) probed(e *epoch, err error, again bool) {
	e.probing = false
	switch {
	case e.ctx.Err() != nil || errors.Is(err, wire.ErrSessionLost) || errors.Is(err, wire.ErrClosed):
		return
	case err != nil:
		m.probe(e) // waits for the next connection
		return
	case again:
		e.refusals++
		m.ask.Reset(m.core.chance.UpTo(min(10*time.Millisecond<<min(e.refusals, 10), time.Second)))
	default:
		e.refusals = 0
		m.tell(e)
	}
	e.change(func() {}) // for whoever waits until the rule is known
	m.heartbeat()
}

// tell says which rule is in force now, and ends what cannot be held under it.
func (m *manager) tell(e *epoch) {
	p, asked := e.settled()
	if !asked {
		return // there is another connection by now, whose server has not said anything yet
	}
	timeout := e.wire.Timeout()
	if p.refused != nil {
		loseAll(e.held(), p.refused)
	}
	if p.rule == e.told {
		return
	}
	e.told = p.rule
	log := m.core.log.With("epoch", e.n, "rule", p.kind().String(), "timeout", timeout, "bound", p.rule.Bound, "margin", p.rule.Margin, "heartbeat", p.every)
	if p.refused != nil {
		log.Warn("nothing can be held", "err", p.refused)
	} else {
		log.Info("safety rule")
	}
}

// Session is one ZooKeeper session of a client: an epoch. Everything ephemeral belongs to one. Safe for concurrent use.
//
// Recipes take a Session, do their work through its [Session.Client], and hold what they were granted with [Session.Hold]: so nothing
// that was begun in one session is finished in another.
type Session struct {
	e *epoch
	c *Client
}

// none says that nobody has made it.
func (s *Session) none() bool { return s == nil || s.e == nil }

// overContext is the context of what nobody has made.
var overContext = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNoClient)
	return ctx
}()

// Epoch returns the number of the session in the client's life, from 1.
func (s *Session) Epoch() int64 {
	if s.none() {
		return 0
	}
	return s.e.n
}

// ID returns the id by which the servers know the session: the ephemeralOwner of its nodes.
func (s *Session) ID() int64 {
	if s.none() {
		return 0
	}
	return s.e.wire.ID()
}

// Timeout returns the session timeout that the server granted.
func (s *Session) Timeout() time.Duration {
	if s.none() {
		return 0
	}
	return s.e.wire.Timeout()
}

// Client returns a view of the client whose operations run in this session or fail with ErrSessionLost.
func (s *Session) Client() *Client {
	if s.none() {
		return &Client{}
	}
	return s.c
}

// Context ends with the session; its cause is ErrSessionLost or ErrClosed. It outlives a suspended connection.
func (s *Session) Context() context.Context {
	if s.none() {
		return overContext
	}
	return s.e.ctx
}

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} {
	if s.none() {
		return closedChannel
	}
	return s.e.ctx.Done()
}

// WaitQuorum returns nil as soon as the session is connected to a member with a quorum, also with [WithReadOnly]: only then can anything be written or
// held. ErrSessionLost or ErrClosed when the session is over; when ctx ends first, an error that matches ErrNotConnected and ctx.Err().
func (s *Session) WaitQuorum(ctx context.Context) error {
	if s.none() {
		return ErrNoClient
	}
	if ctx == nil {
		return ErrNilContext
	}
	for e := s.e; ; {
		e.mu.Lock()
		over, connected, changed := e.over, e.attached && !e.suspended, e.changed
		e.mu.Unlock()
		switch {
		case over != nil:
			return over
		case connected:
			return nil
		case ctx.Err() != nil:
			return e.core.notConnected(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Session returns the current session, and waits for it as long as ctx allows when there is none yet, or the last one was lost. A session
// whose connection is suspended is a session. On a session's view it returns that session, or ErrSessionLost.
func (c *Client) Session(ctx context.Context) (*Session, error) { return c.session(ctx, false) }

// session is Session; with hopeful it gives up, too, when every server refuses the client's credentials.
func (c *Client) session(ctx context.Context, hopeful bool) (*Session, error) {
	if c.none() {
		return nil, ErrNoClient
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	for {
		e, err := c.epochOf()
		if err != nil {
			return nil, err
		}
		e.mu.Lock()
		attached, changed := e.attached && e.over == nil, e.changed
		e.mu.Unlock()
		if attached {
			return &Session{e, &Client{core: c.core, view: c.view.in(e)}}, nil
		}
		if why := e.wire.Refused(); hopeful && why != nil {
			return nil, fmt.Errorf("%w: %w", errUnwelcome, plain.Error(why))
		}
		select {
		case <-changed:
		case <-c.core.movedOn(e):
		case <-ctx.Done():
			return nil, c.core.notConnected(ctx)
		}
	}
}
