package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/mark"
	"github.com/go-curator/curator/retry"
)

// marker writes exactly once, with a [mark.Mark] that shows whether a write was executed. Items cannot show it
// themselves: their names and data are Curator's, and a consumer may have taken an item away before its producer
// looks for it. One goroutine at a time.
type marker struct {
	client  *framework.Client
	dir     string
	patient bool // retries for as long as the session lasts, not only as the retry policy allows

	mark *mark.Mark // nil: there is none yet
}

// ops builds operations with a session's TransactionOps.
type ops func(framework.TransactionOps) []framework.TransactionOp

// write executes all of the operations or none, exactly once. A TransactionError that does not match
// ErrOutcomeUnknown is a refusal by the servers, with indexes that do not count the marker. An error that matches
// ErrOutcomeUnknown means that the outcome can no longer be found out: the retry policy, ctx or the session ended
// first.
func (m *marker) write(ctx context.Context, what ops) error {
	w := marked{marker: m, ops: what}
	ended := false
	defer func() {
		if w.doubt || !ended { // a hook may have ended the goroutine
			m.forget() // the mark may have been changed
		}
	}()
	var err error
	if m.patient {
		err = line.Outlast(ctx, m.client, line.RefusedCredentials, w.try)
	} else {
		err = m.client.Retry(ctx, w.try, retry.WithRetryable(line.Transient(m.client)))
	}
	ended = true
	return outcome(err, w.doubt)
}

// outcome returns the error of a write whose last try ended with err. doubt means that a try may have been executed;
// otherwise none was sent, or each was refused.
func outcome(err error, doubt bool) error {
	switch {
	case !doubt:
		return mark.NotSent(err)
	case err != nil && !errors.Is(err, framework.ErrOutcomeUnknown):
		return fmt.Errorf("%w; an earlier try: %w", err, framework.ErrOutcomeUnknown)
	}
	return err
}

// marked is one write.
type marked struct {
	*marker
	ops   ops
	doubt bool // a try may have been executed
}

func (w *marked) try(ctx context.Context) error {
	session, err := w.client.SessionSoon(ctx)
	if err != nil {
		return retry.Permanent(err) // SessionSoon has applied the retry policy
	}
	if !w.mark.Serves(session) {
		if w.doubt {
			return errUndecided
		}
		w.begin(session)
	}
	for range 5 { // another client may delete the marks that try makes
		again, failed := w.send(ctx)
		if err = failed; !again {
			break
		}
	}
	return err
}

// send sends the transaction. again means that it was not executed and has to be sent in another form.
func (w *marked) send(ctx context.Context) (again bool, _ error) {
	m := w.mark
	if !m.Made && !m.None {
		if err := w.make(ctx); err != nil {
			return false, err
		}
	}
	view := m.Session.Client()
	_, err := line.Result(view.TransactionInBackground(ctx, m.Write(w.ops(view.TransactionOp())...)...))
	var then verdict
	w.doubt, then, err = after(m.Meaning(err, w.doubt), err, w.doubt, m.None)
	switch then {
	case written:
		m.Written()
	case remarked:
		w.begin(m.Session)
	case unmarked:
		m.None = true
	}
	return then == remarked || then == unmarked, err
}

// verdict is the next step after a try.
type verdict int8

const (
	written  verdict = iota // the write was executed
	ends                    // the try ends with an error
	remarked                // it was not executed, and is sent with another mark
	unmarked                // it was not executed, and is sent without a mark
)

// after returns whether the write may have been executed after a try, the next step, and the error. none means that
// the server accepts no mark.
func after(answer mark.Answer, err error, doubt, none bool) (bool, verdict, error) {
	switch {
	case answer == mark.Done:
		return false, written, nil
	case answer == mark.Open:
		doubt = doubt || errors.Is(err, framework.ErrOutcomeUnknown)
		if doubt && none {
			err = errUndecidable
		}
		return doubt, ends, err
	case answer == mark.Refused:
		return false, ends, err
	case doubt:
		return true, ends, errUndecided // another client has deleted the mark
	case answer == mark.Gone:
		return false, remarked, err // another client has changed or deleted it
	case !errors.Is(err, framework.ErrNoAuth):
		return false, ends, err
	}
	return false, unmarked, err
}

// make makes the mark.
func (w *marked) make(ctx context.Context) (err error) {
	m := w.mark
	for range 3 { // the directory may be deleted, also by the server when it is unused
		_, err = line.Result(m.Create().InBackground().ForPath(ctx, m.Path, []byte{}))
		if errors.Is(err, framework.ErrNoNode) {
			_, err = line.Result(m.Session.Client().Create().CreatingParentContainersIfNeeded().
				WithMode(framework.Container).Uncompressed().InBackground().ForPath(ctx, w.dir, []byte{}))
			if line.Unless(err, framework.ErrNodeExists) == nil {
				continue
			}
		}
		break
	}
	switch err = line.Unless(err, framework.ErrNodeExists); { // made by a try whose reply was lost
	case err == nil:
		m.Made = true
	case errors.Is(err, framework.ErrNoAuth):
		m.None, err = true, nil
	}
	return err
}

// begin starts a new mark for the next write.
func (m *marker) begin(session *framework.Session) {
	m.forget()
	m.mark = mark.New(session, m.dir)
}

// forget deletes the mark in the background.
func (m *marker) forget() {
	m.mark.Forget()
	m.mark = nil
}

const (
	// lingering is the time that a producer's marker stays after its last write.
	lingering = 10 * time.Second
	// abreast is the number of a producer's writes in flight at a time, each with its own marker.
	abreast = 8
)

// pool holds a producer's markers.
type pool struct {
	client *framework.Client
	dir    string
	slots  chan struct{} // one per marker in use

	mu       sync.Mutex
	free     []*marker // the most recently used at the end; guarded by mu
	sweeping bool      // a goroutine removes unused markers; guarded by mu
}

func newPool(client *framework.Client, dir string) *pool {
	return &pool{client: client, dir: dir, slots: make(chan struct{}, abreast)}
}

// write is [marker.write] with one of the markers.
func (p *pool) write(ctx context.Context, what ops) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return p.client.Left(ctx, nil)
	}
	m := p.take()
	defer p.giveBack(m)
	return m.write(ctx, what)
}

func (p *pool) take() *marker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		m := p.free[n-1]
		p.free = p.free[:n-1]
		return m
	}
	return &marker{client: p.client, dir: p.dir}
}

func (p *pool) giveBack(m *marker) {
	if m.mark == nil {
		return
	}
	m.mark.Used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, m)
	if !p.sweeping {
		p.sweeping = true
		p.client.Spawn(p.sweep)
	}
}

// sweep forgets unused markers, so that an idle producer leaves no nodes.
func (p *pool) sweep(ctx context.Context) {
	for wait := lingering; wait > 0; {
		p.client.Pause(ctx, wait)
		if p.client.Err() != nil {
			return // the marks go with the session
		}
		var old []*marker
		old, wait = p.unused()
		for _, m := range old {
			m.forget()
		}
	}
}

// unused removes and returns the markers that have lingered, and the time until the next one has; 0 if none is left.
func (p *pool) unused() (old []*marker, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.free) > 0 {
		if wait = lingering - time.Since(p.free[0].mark.Used); wait > 0 {
			return old, wait
		}
		old, p.free = append(old, p.free[0]), p.free[1:]
	}
	p.sweeping = false
	return old, 0
}
