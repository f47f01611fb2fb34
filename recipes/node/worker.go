package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/line"
)

// worker is the keeper's goroutine: it executes the machine's actions, one at a time, each on a separate goroutine,
// and handles all other events at the same time.
type worker struct {
	k       *Keeper
	client  *framework.Client
	mode    framework.CreateMode
	ttl     time.Duration
	path    string // empty while a sequential node has no name
	results chan result

	m       machine
	session *framework.Session
	former  []int64 // ids of earlier sessions that may have left a node
	armed   *framework.Watch
	other   Status  // state of another client's node
	warned  int64   // the session whose node was logged; -1 if none was
	lastErr error   // of the last failed job
	sent    content // data of the last create
}

// job is an action, with the worker's state when it began.
type job struct {
	action
	k       *Keeper
	mode    framework.CreateMode
	ttl     time.Duration
	path    string
	session *framework.Session
	former  []int64
	m       machine
}

// result is the result of a job.
type result struct {
	event
	err     error
	path    string
	owner   int64
	sent    content
	session *framework.Session
	watch   *framework.Watch
}

// remembered is the number of earlier sessions that are remembered: older ones have been closed by the client, or
// have expired.
const remembered = 8

func newWorker(k *Keeper, cfg *config) *worker {
	w := &worker{
		k: k, client: k.client, mode: cfg.mode, ttl: cfg.ttl, path: k.path, results: make(chan result, 1), warned: -1,
	}
	switch {
	case w.mode == framework.EphemeralSequential, w.mode == framework.PersistentSequential:
		w.path = ""
	case cfg.protected:
		w.path = protectedPath(k.path)
	}
	w.m = machine{
		persistent: w.mode != framework.Ephemeral && w.mode != framework.EphemeralSequential,
		stays:      cfg.ttl > 0,
		named:      w.path != "",
		grasp:      cfg.takeover == AtStart,
		unique:     w.path != k.path,
	}
	return w
}

func (w *worker) run() {
	defer close(w.k.done)
	ctx, cancel := context.WithCancel(context.Background())
	var touching sync.WaitGroup
	if w.ttl > 0 {
		touching.Go(func() { w.k.touch(ctx, w.ttl) })
	}
	defer touching.Wait()
	defer cancel()
	states := w.client.StateChanges(ctx)
	paused, again := time.NewTimer(0), time.NewTimer(0)
	paused.Stop()
	defer paused.Stop()
	defer again.Stop()
	defer func() { w.armed.Stop() }()
	for e := (event{kind: stirred}); ; e = w.await(&states, paused, again) {
		var a action
		w.m, a = w.m.next(e)
		w.show()
		switch a {
		case rest:
		case pause:
			paused.Reset(w.pausing())
		case stop:
			w.end()
			return
		default:
			j := job{a, w.k, w.mode, w.ttl, w.path, w.session, w.former, w.m}
			go j.run(ctx, w.results)
		}
	}
}

// await waits for the next event.
func (w *worker) await(states *<-chan framework.StateChange, paused, again *time.Timer) event {
	again.Reset(line.PerTimeout(w.client)())
	for {
		select {
		case r := <-w.results:
			return w.ended(r)
		case <-w.k.inbox.More():
			// The number of requests does not matter, and closing overrides all others.
			if all := w.k.inbox.Take(); slices.Contains(all, closing) {
				return event{kind: closing}
			} else if len(all) > 0 {
				return event{kind: asked}
			}
		case change, more := <-*states:
			if !more {
				*states = nil
				return event{kind: stirred, final: true}
			}
			if e, tells := w.heard(change); tells {
				return e
			}
		case ev, fired := <-line.Events(w.armed):
			w.armed = nil // used up
			if fired && ev.Type == framework.EventNodeDeleted {
				return event{kind: deleted}
			}
			return event{kind: stirred}
		case <-paused.C:
			return event{kind: due}
		case <-again.C: // events can get lost: servers drop events of nodes that the client may not read
			return event{kind: stirred}
		}
	}
}

// heard returns the event for a change of the connection.
func (w *worker) heard(change framework.StateChange) (e event, tells bool) {
	e.epoch = change.Epoch
	switch change.State {
	case framework.Connected, framework.Reconnected:
		e.kind = connected
	case framework.Suspended, framework.ReadOnly:
		e.kind = suspended
	case framework.Lost:
		e.kind, e.final = lost, w.client.Err() != nil // client may be the view of a session
	default:
		return e, false
	}
	return e, true
}

// pausing returns the length of the pause.
func (w *worker) pausing() time.Duration {
	n := min(max(w.m.failures, 1), 10)
	if w.m.lasting {
		return chance.UpTo(min(100*time.Millisecond<<(n-1), 10*time.Second))
	}
	return chance.UpTo(min(10*time.Millisecond<<n, time.Second))
}

// run does the job, on a separate goroutine.
func (j *job) run(ctx context.Context, results chan<- result) {
	// The result if the user's code does not return:
	r := result{event: event{kind: failed}, session: j.session}
	defer func() { results <- r }()
	if j.action == join {
		r.kind = joined
		r.session, r.err = j.k.client.Session(ctx)
	} else {
		j.request(&r)
	}
	if r.session != nil {
		r.epoch = r.session.Epoch()
	}
	if r.err != nil {
		r.kind, r.final = j.meaning(r.err), j.k.client.Err() != nil
		r.perhaps = errors.Is(r.err, framework.ErrOutcomeUnknown)
	}
}

// request makes one attempt in the session.
func (j *job) request(r *result) {
	view, ctx := j.session.Client(), context.Background() // the requests end with the session
	switch j.action {
	case create:
		r.sent = j.k.wanted()
		if j.ttl > 0 {
			r.kind, r.path = created, j.path
			r.czxid, r.err = createTouched(ctx, view, j.path, r.sent.data, j.ttl)
			return
		}
		builder, path := view.Create().WithMode(unnumbered(j.mode)), j.path
		if path == "" {
			if j.m.persistent { // then the client also looks for the node of a lost session
				view = j.k.client
			}
			builder, path = view.Create().WithMode(j.mode).WithProtection(), j.k.path
		}
		var node framework.CreateResult
		node, r.err = line.Result(builder.CreatingParentContainersIfNeeded().InBackground().
			ForPath(ctx, path, r.sent.data))
		r.kind, r.path, r.czxid = created, node.Path, node.Stat.Czxid
	case look:
		if j.m.careful() {
			if r.err = catchUp(ctx, view, j.path); r.err != nil {
				return
			}
		}
		var found framework.ExistsResult
		found, r.err = line.Result(view.CheckExists().WithWatch().InBackground().ForPath(ctx, j.path))
		var stat *framework.Stat
		stat, r.err = line.Own(ctx, view, j.path, found.Stat, r.err)
		if r.watch, r.kind = found.Watch, absent; stat != nil {
			r.kind, r.czxid, r.version = seen, stat.Czxid, stat.Version
			r.owner = stat.EphemeralOwner
			r.whose = whoseIs(r.owner, j.session.ID(), j.m.persistent, j.former)
		}
	case set:
		r.sent = j.k.wanted()
		var stat framework.Stat
		stat, r.err = line.Result(view.SetData().WithVersion(j.m.version).InBackground().
			ForPath(ctx, j.path, r.sent.data))
		r.kind, r.version = written, stat.Version
	case replace:
		r.sent = j.k.wanted()
		to := view.TransactionOp()
		_, r.err = line.Result(view.TransactionInBackground(ctx,
			to.Delete().WithVersion(j.m.version).ForPath(j.path),
			to.Create().WithMode(unnumbered(j.mode)).ForPath(j.path, r.sent.data)))
		r.kind, r.path = created, j.path
	case remove:
		_, r.err = line.Result(view.Delete().WithVersion(j.m.version).InBackground().ForPath(ctx, j.path))
		r.err = line.Unless(r.err, framework.ErrNoNode)
		r.kind = removed
	}
}

// unnumbered returns the mode for a node whose name has its number already.
func unnumbered(mode framework.CreateMode) framework.CreateMode {
	switch mode {
	case framework.EphemeralSequential:
		return framework.Ephemeral
	case framework.PersistentSequential:
		return framework.Persistent
	}
	return mode
}

// whoseIs returns the owner of a node with this ephemeral owner, in a session with that id.
func whoseIs(owner, session int64, persistent bool, earlier []int64) whose {
	switch {
	case persistent && owner == 0, !persistent && owner == session:
		return own
	case owner == 0:
		return nobody
	case slices.Contains(earlier, owner):
		return former
	}
	return another
}

// meaning returns the kind of event for an error.
func (j *job) meaning(err error) eventKind {
	conflict := errors.Is(err, framework.ErrNodeExists) || errors.Is(err, framework.ErrBadVersion) ||
		j.action != create && errors.Is(err, framework.ErrNoNode)
	switch {
	case errors.Is(err, framework.ErrClosed):
		return failed
	case errors.Is(err, framework.ErrSessionLost):
		return orphaned
	case passes(err):
		return failed
	case conflict && !errors.Is(err, framework.ErrOutcomeUnknown):
		return met
	}
	return rejected
}

// catchUp makes the server execute a write. A read after it is not older than the effect of any earlier request of
// the session whose reply was lost, which a member that lags might not show otherwise.
func catchUp(ctx context.Context, view *framework.Client, path string) error {
	_, err := line.Result(view.TransactionInBackground(ctx, view.TransactionOp().Check().ForPath(path)))
	if err != nil && !passes(err) && !errors.Is(err, framework.ErrSessionLost) &&
		!errors.Is(err, framework.ErrClosed) {
		return nil // a refusal is as good: it comes in the same order
	}
	return err
}

// passes reports whether an error concerns the connection to servers that can write, or a server without a quorum.
func passes(err error) bool {
	return framework.Retryable(err) || errors.Is(err, framework.ErrNotReadOnly)
}

// ended returns the event for a result, and keeps its watch, session and path.
func (w *worker) ended(r result) event {
	if r.watch != nil {
		w.armed.Stop() // after the next one is armed, which costs no request
		w.armed = r.watch
	}
	known := w.lastErr != nil && r.err != nil && w.lastErr.Error() == r.err.Error()
	switch {
	case r.err != nil && r.kind != met:
		w.lastErr = r.err
	case r.whose == own, r.kind == written:
		w.lastErr = nil
	}
	if w.m.busy == create || w.m.busy == replace {
		w.sent = r.sent
	}
	switch r.kind {
	case joined:
		if w.session != nil && w.session.ID() != r.session.ID() && w.m.leaves() {
			w.former = append(slices.Clone(w.former[max(0, len(w.former)+1-remembered):]), w.session.ID())
		}
		w.session = r.session
	case created:
		w.path = r.path
		r.latest = w.k.wrote(r.sent)
	case seen:
		w.other = Status{Other: r.whose != own, Owner: r.owner}
		if r.whose == own && w.m.recognises(r.version) {
			w.k.wrote(w.sent)
		}
	case written:
		r.latest = w.k.wrote(r.sent)
	case rejected:
		if !known { // otherwise it was logged before
			w.client.Logger().Warn("a node cannot be kept as it should be", "path", w.k.path, "err", r.err)
		}
		if r.sent.n > 0 {
			r.latest = w.k.refused(r.sent, r.err)
		}
	}
	return r.event
}

// show publishes the status.
func (w *worker) show() {
	s := Status{State: w.m.state(), Path: w.path, Err: w.lastErr}
	var refusal error
	switch s.State {
	case There:
		s.Czxid, w.warned = w.m.mine, -1
	case Missing:
		if w.m.known == foreign {
			s.Other, s.Owner = w.other.Other, w.other.Owner
			if w.m.todo() != replace && !w.m.old && w.warned != s.Owner {
				w.warned = s.Owner
				w.client.Logger().Warn("another's node is in the place of a node to be kept; waiting until it is gone",
					"path", w.path, "session", fmt.Sprintf("%#x", s.Owner))
			}
			if !w.m.fleeting {
				s.Err = errForeign
				refusal = s.Err
			}
		}
	}
	if w.m.lasting {
		refusal = w.lastErr
	}
	w.k.show(s, !w.m.dirty, refusal, false)
}

// end publishes the final status; the goroutine ends after it.
func (w *worker) end() {
	why := error(ErrClosed)
	if w.m.over {
		if w.k.left = w.client.Err(); w.k.left == nil { // the server has refused to delete it
			w.k.left = w.lastErr
		} else {
			why = w.k.left
		}
	}
	w.k.show(Status{State: Missing, Path: w.path, Err: why}, false, why, true)
}
