package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// LossPolicy says whether a hold outlives a suspended connection. Corresponds to Curator's ConnectionStateErrorPolicy.
type LossPolicy int8

const (
	// SuspendedIsLoss ends the hold as soon as the connection is lost (Curator's StandardConnectionStateErrorPolicy).
	SuspendedIsLoss LossPolicy = iota
	// SessionOnly lets it live as long as the session certainly does (Curator's SessionConnectionStateErrorPolicy). That is safe
	// here: the client's own clock ends the hold before the servers can give it to somebody else.
	SessionOnly
)

func (p LossPolicy) String() string {
	if p == SuspendedIsLoss {
		return "SuspendedIsLoss"
	}
	return "SessionOnly"
}

// HoldOptions says what is held.
type HoldOptions struct {
	// Path is the ephemeral node of this session that stands for the right. Without it there is no hold.
	Path string
	// Recipe is what [Hooks] are told: what kind of right it is. Default none.
	Recipe string
	// Czxid is the zxid of the node's creation: another node of the same name is not it. Default 0: that of the first look at it.
	Czxid int64
	// Loss is the policy. Default SuspendedIsLoss.
	Loss LossPolicy
	// Values is where the hold's context has its values from. Its end does not matter: a hold outlives the wait for it. Default none.
	Values context.Context
	// OwnWatchAfter is after how long the hold begins to watch its node. Default 0: 50 ms, so that short holds cost nothing. Negative: at
	// once, and if this session has a watch on the node already, by joining it, without a request: only for who has seen the node since
	// that watch was set.
	OwnWatchAfter time.Duration
}

const (
	ownWatchAfter = 50 * time.Millisecond
	// lookAgain is when to look at the own node again after the server has refused to show it for a passing reason.
	lookAgain = time.Second
	// watchLeft is how long the watch stays on the node of a hold that was given back: for its deletion, which uses the watch up without a request.
	watchLeft = time.Second
)

// Hold is a right that one session has: a lock, a lease, a term of leadership. It ends once, for one reason, and never comes back.
// Safe for concurrent use.
//
// It ends, at the latest, before the servers can take the session for dead: see [Rule]. What that does not cover is an administrator who
// deletes the node, or closes the session: that is known within a delivery time, or upon the next connection.
type Hold struct {
	e     *epoch
	path  string // full
	loss  LossPolicy
	ctx   *holdContext
	fail  context.CancelCauseFunc
	told  func(error) // the hook's word of its end, nil if there is none; set once, as timer
	timer *time.Timer // of the next look at the own node; set once, before the hold is known to anybody

	mu       sync.Mutex
	cause    error // set once
	czxid    int64
	watch    *wire.Watch // the own-node watch that is armed or on its way
	unlisted bool        // the heartbeat may not check the node
}

// Hold makes a hold of a right that the node at opt.Path stands for. The caller has found out, in this session, that the right is its own;
// Hold sees to it that it notices when that ends.
//
// It waits, as long as ctx allows, for what the rule in force needs: once per session for the answer whether the server stands alone, and
// under [RuleHeartbeat] for up to three committed writes, over lost connections and refusals that pass. Otherwise it returns at once and sends nothing. ctx is not the hold's.
//
// Errors: ErrSessionLost, ErrClosed, ErrSuspended (policy SuspendedIsLoss and no connection), ErrNodeDeleted, ErrTimeoutTooShort,
// ErrInvalidPath, ErrNilContext, and ctx's.
func (s *Session) Hold(ctx context.Context, opt HoldOptions) (*Hold, error) {
	if s.none() {
		return nil, opError("hold", opt.Path, ErrNoClient)
	}
	if err := checkContext(ctx); err != nil {
		return nil, opError("hold", opt.Path, err)
	}
	full, err := s.c.fullPath(opt.Path)
	if err != nil {
		return nil, opError("hold", opt.Path, err)
	}
	certain := func() error { return s.e.certain(ctx, full, opt.Loss) }
	if err := inRounds(certain); err != nil {
		return nil, opError("hold", opt.Path, s.e.core.explain(err))
	}
	h := newHold(s.e, full, opt)
	if err = s.e.register(h); err == errUncertain { // the hook has taken its time
		err = inRounds(func() error {
			if err := certain(); err != nil {
				return err
			}
			return s.e.register(h)
		})
	}
	if err != nil {
		h.End(err)
		return nil, opError("hold", opt.Path, s.e.core.explain(err))
	}
	switch {
	case opt.OwnWatchAfter < 0:
		h.watchNode(true)
	case opt.OwnWatchAfter == 0:
		h.timer.Reset(ownWatchAfter)
	default:
		h.timer.Reset(opt.OwnWatchAfter)
	}
	return h, nil
}

// certain returns nil when a hold would be certain, and errUncertain when it is to be asked again.
func (e *epoch) certain(ctx context.Context, full string, loss LossPolicy) error {
	if err := e.ready(ctx, loss); err != nil {
		return err
	}
	if err := e.committed(ctx, full); err != nil {
		return err
	}
	switch v := e.wire.Validity(); {
	case v.Valid():
		return nil
	case v.Lapsed():
		return e.ending(v.Why())
	}
	return errUncertain // the rule has changed meanwhile, or the connection, or it was certain for a moment only
}

// errUncertain says that a hold is not certain any more, in a session that goes on.
var errUncertain = fmt.Errorf("%w: by the time a hold is made it is not certain any more", ErrTimeoutTooShort)

// certainRounds is how often a hold is made certain. One that never is for long enough to be had would keep its caller, and the servers, busy for ever.
const certainRounds = 8

// inRounds tries again what is uncertain.
func inRounds(try func() error) (err error) {
	for range certainRounds {
		if err = try(); err != errUncertain {
			break
		}
	}
	return err
}

// ready waits until the rule is known and checks that it allows a hold.
func (e *epoch) ready(ctx context.Context, loss LossPolicy) error {
	for {
		e.mu.Lock()
		over, changed := e.over, e.changed
		suspended := e.suspended && loss == SuspendedIsLoss
		e.mu.Unlock()
		switch {
		case over != nil:
			return over
		case suspended:
			return ErrSuspended
		}
		if p, asked := e.settled(); asked {
			return p.refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return leftBy(ctx, false)
		}
	}
}

// register makes the hold the epoch's, unless it is too late. It looks at the clock last: a hook may have taken its time since the hold was certain.
func (e *epoch) register(h *Hold) error {
	v := e.wire.Validity()
	counted, late := v.Hold(), errUncertain
	if v.Lapsed() {
		late = e.ending(v.Why())
	}
	e.mu.Lock()
	err := e.over
	switch {
	case err != nil:
	case e.suspended && h.loss == SuspendedIsLoss:
		err = ErrSuspended
	case !counted:
		err = late
	default:
		e.holds[h] = struct{}{}
	}
	e.mu.Unlock()
	if err != nil {
		if counted {
			v.Unhold()
		}
		return err
	}
	switch p, asked := e.settled(); { // whoever changes it from now on finds the hold
	case p.refused != nil && asked:
		h.lose(p.refused)
	case p.every > 0:
		e.core.manager.posts.put(e.core.manager.startBeating)
	}
	if !h.Valid() {
		return h.why()
	}
	return nil
}

func newHold(e *epoch, full string, opt HoldOptions) *Hold {
	h := &Hold{e: e, path: full, loss: opt.Loss, czxid: opt.Czxid}
	values := context.Background()
	if opt.Values != nil {
		values = context.WithoutCancel(opt.Values)
	}
	if observer := e.core.cfg.observer; observer.Active() {
		values, h.told = observer.hold(values, HoldInfo{Recipe: opt.Recipe, Path: opt.Path, Token: opt.Czxid, Epoch: e.n, SessionID: e.wire.ID()})
	}
	inner, cancel := context.WithCancelCause(values)
	h.ctx, h.fail = &holdContext{inner, h}, cancel
	h.timer = time.AfterFunc(time.Hour, h.due)
	h.timer.Stop()
	return h
}

// Context ends with the hold; context.Cause says why: ErrSuspended, ErrSessionLost, ErrNodeDeleted, ErrReleased, ErrClosed,
// ErrTimeoutTooShort, or what End was given. Its values are those of HoldOptions.Values, and it has no deadline.
//
// Its Err looks at the clock, too: after a pause of the process, or of the machine, it is not nil even if nobody has had the time to close
// Done yet. (The Err of contexts derived with context.WithCancel and the like does not look; it follows Done.)
func (h *Hold) Context() context.Context {
	if h.e == nil {
		return overContext // nobody has made it
	}
	return h.ctx
}

// Valid says whether the right is certain now. It computes that from the clock, and waits for nobody. When it is false, the context has ended.
func (h *Hold) Valid() bool {
	if h.e == nil {
		return false
	}
	if cause := h.why(); cause != nil {
		h.fail(cause) // whoever ended it may not have come to that yet
		return false
	}
	v := h.e.wire.Validity()
	if v.Valid() {
		return true
	}
	h.lose(h.e.ending(v.Why()))
	return false
}

// lost ends the hold for a reason of its own, unless it has ended with its session before: after a pause of the process what the session's end has brought
// about, a deleted node, a closed connection, may be read before anybody has looked at the clock.
func (h *Hold) lost(cause error) {
	if h.Valid() {
		h.lose(cause)
	}
}

// Remaining is for how long the hold is valid if no answer comes any more; 0 when it has ended. While the connection works it is renewed
// all the time.
func (h *Hold) Remaining() time.Duration {
	if !h.Valid() {
		return 0
	}
	return max(h.e.wire.Validity().Remaining(), 0)
}

// End ends the hold. Only the first call has an effect, and its cause is that of the context; nil means ErrReleased. It returns at once. The watch on the node
// goes with the node, or, where that stays, a second later.
// End it before its node is deleted: somebody else may have the right as soon as the node is gone.
func (h *Hold) End(cause error) {
	if h.e == nil {
		return
	}
	if cause == nil {
		cause = ErrReleased
	}
	if !h.end(cause) {
		return
	}
	h.tidy()
	if h.told != nil {
		h.told(cause)
	}
}

// lose is End for the client itself, and for whoever only asks: the hook is told on the goroutine of the hooks.
func (h *Hold) lose(cause error) { loseAll([]*Hold{h}, cause) }

// loseAll ends what of it has not ended yet; only then it does what may have to wait.
func loseAll(holds []*Hold, cause error) {
	var ended []*Hold
	for _, h := range holds {
		if h.end(cause) {
			ended = append(ended, h)
		}
	}
	for _, h := range ended {
		if h.told != nil {
			h.e.core.ops.hooks.put(func() { h.told(cause) })
		}
		h.tidy()
	}
}

// end is true for the first. It waits for no lock that is held for longer than it takes to look at the holds and at the clock; above all not for that of
// the session's state.
func (h *Hold) end(cause error) bool {
	h.mu.Lock()
	if first := h.cause; first != nil {
		h.mu.Unlock()
		h.fail(first) // who has set it may not have come to that yet
		return false
	}
	h.cause = cause
	h.mu.Unlock()
	h.fail(cause)
	h.timer.Stop()
	h.e.mu.Lock()
	_, registered := h.e.holds[h]
	delete(h.e.holds, h)
	h.e.mu.Unlock()
	if registered {
		h.e.wire.Validity().Unhold()
	}
	return true
}

// tidy is what is left to do after end. In a session that is over it waits for nothing: the watch goes with that.
func (h *Hold) tidy() {
	h.mu.Lock()
	watch := h.watch
	h.mu.Unlock()
	if watch != nil && !h.e.wire.Validity().Lapsed() {
		h.unwatch(watch)
	}
}

// unwatch takes the watch of a hold that has ended off the node. Of one that was given back the node is deleted next, as a rule.
func (h *Hold) unwatch(watch *wire.Watch) {
	if h.why() == ErrReleased {
		h.timer.Reset(watchLeft)
	} else {
		h.e.wire.Unwatch(watch)
	}
}

// due is for the timer: it is time to look at the own node, or, after the end, not to watch it any more.
func (h *Hold) due() {
	h.mu.Lock()
	ended, watch := h.cause != nil, h.watch
	h.mu.Unlock()
	switch {
	case !ended:
		h.watchNode(false)
	case watch != nil:
		h.e.wire.Unwatch(watch)
	}
}

// why returns the cause, nil while the hold has not ended.
func (h *Hold) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// holdContext is a cancelable context whose Err looks at the clock.
type holdContext struct {
	context.Context
	h *Hold
}

// Err implements [context.Context].
func (c *holdContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.h.Valid()
	return c.Context.Err()
}

// watchNode looks at the own node and arms a watch on it; with join, an existing watch of this session is enough.
func (h *Hold) watchNode(join bool) {
	w := &wire.Watch{Kind: wire.Data, Path: h.path}
	w.Fn = func(ev wire.WatchEvent) { h.fired(w, ev) }
	h.mu.Lock()
	if h.cause != nil {
		h.mu.Unlock()
		return
	}
	h.watch = w
	h.mu.Unlock()
	if !join || !h.e.wire.Join(w) {
		h.e.wire.Submit(&wire.Call{
			Op: jute.OpExists, Body: jute.Marshal(&jute.PathWatchRequest{Path: h.path, Watch: true}), Watch: w,
			Done: func(r wire.Reply) { h.seen(w, r) },
		})
	}
	if h.why() != nil {
		h.unwatch(w) // it ended before there was anything to remove
	}
}

// fired handles an event of the own node. Whatever it is, the node has to be looked at again: another one may be in its place.
func (h *Hold) fired(w *wire.Watch, ev wire.WatchEvent) {
	h.mu.Lock()
	if h.watch != w {
		h.mu.Unlock()
		return
	}
	h.watch = nil
	h.mu.Unlock()
	switch ev.Type {
	case jute.EventNodeDeleted:
		h.lost(ErrNodeDeleted)
	case wire.EventEnd:
		h.lose(h.e.ending(ev.Err))
	default:
		h.watchNode(false)
	}
}

// seen handles what the own node looks like.
func (h *Hold) seen(w *wire.Watch, r wire.Reply) {
	var node jute.StatResponse
	switch err := replyError(r); {
	case r.Err != nil && h.e.isOver(r.Err):
		h.lose(h.e.ending(r.Err))
	case r.Err != nil:
		h.watchNode(false) // waits for the next connection
	case r.Code == jute.CodeNoNode:
		h.lost(ErrNodeDeleted)
		h.e.wire.Unwatch(w) // armed for the next node of this name
	case r.Code == jute.CodeOK && jute.Unmarshal(r.Body, &node) == nil:
		id := h.e.wire.ID() // not inside: see end
		h.mu.Lock()
		if h.czxid == 0 {
			h.czxid = node.Stat.Czxid
		}
		same := node.Stat.Czxid == h.czxid && node.Stat.EphemeralOwner == id
		h.mu.Unlock()
		if !same {
			h.lost(ErrNodeDeleted)
		}
	case r.Code == jute.CodeNoAuth:
		h.e.core.log.Warn("a hold may not look at its own node: its deletion will not be noticed", "epoch", h.e.n, "path", h.path)
		h.disarmed(w)
	default:
		h.e.core.log.Warn("cannot look at the node of a hold; trying again", "epoch", h.e.n, "path", h.path, "err", err)
		h.disarmed(w)
		h.timer.Reset(lookAgain)
		if h.why() != nil {
			h.timer.Stop()
		}
	}
}

func (h *Hold) disarmed(w *wire.Watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch == w {
		h.watch = nil
	}
}
