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

// markedWriter writes exactly once, with a [mark.Mark] that shows whether a write was executed. An item cannot show
// that: its name and data are Curator's, and a consumer may have taken it off before its producer reads it. One
// goroutine at a time.
type markedWriter struct {
	client           *framework.Client
	markDir          string
	untilSessionEnds bool // retries for as long as the session lasts, not only as the retry policy allows

	mark *mark.Mark // nil: there is none yet
}

// operationBuilder builds operations with a session's TransactionOps.
type operationBuilder func(framework.TransactionOps) []framework.TransactionOp

// writeExactlyOnce executes all of the operations exactly once, or none. A TransactionError that does not match
// ErrOutcomeUnknown is a refusal by the servers. An error that matches ErrOutcomeUnknown means that the outcome can no
// longer be found out: the retry policy, ctx or the session ended first.
func (m *markedWriter) writeExactlyOnce(ctx context.Context, build operationBuilder) error {
	w := markedWrite{markedWriter: m, build: build}
	returned := false
	defer func() {
		if w.mayBeExecuted || !returned { // a hook may have ended the goroutine
			m.forgetMark() // the mark may have been changed
		}
	}()
	var err error
	if m.untilSessionEnds {
		err = line.RetryThrough(ctx, m.client, line.RefusedCredentials, w.attemptWrite)
	} else {
		err = m.client.Retry(ctx, w.attemptWrite, retry.WithRetryable(line.IsTransient(m.client)))
	}
	returned = true
	return finalError(err, w.mayBeExecuted)
}

// finalError returns the error of a write whose last try ended with err. unknown means that a try may have been
// executed; otherwise no try was sent, or each was refused.
func finalError(err error, unknown bool) error {
	switch {
	case !unknown:
		return mark.NotExecuted(err)
	case err != nil && !errors.Is(err, framework.ErrOutcomeUnknown):
		return fmt.Errorf("%w; an earlier try: %w", err, framework.ErrOutcomeUnknown)
	}
	return err
}

// markedWrite is one write.
type markedWrite struct {
	*markedWriter
	build         operationBuilder
	mayBeExecuted bool // a try may have been executed
}

func (w *markedWrite) attemptWrite(ctx context.Context) error {
	session, err := w.client.SessionSoon(ctx)
	if err != nil {
		return retry.Permanent(err) // SessionSoon has applied the retry policy
	}
	if !w.mark.Serves(session) {
		if w.mayBeExecuted {
			return errMarkGone
		}
		w.replaceMark(session)
	}
	for range 5 { // another client may delete the marks that attemptWrite makes
		again, failed := w.sendTransaction(ctx)
		if err = failed; !again {
			break
		}
	}
	return err
}

// sendTransaction sends the transaction. again means that it was not executed and has to be sent in another form.
func (w *markedWrite) sendTransaction(ctx context.Context) (again bool, _ error) {
	m := w.mark
	if !m.Created && !m.Forbidden {
		if err := w.createMark(ctx); err != nil {
			return false, err
		}
	}
	view := m.Session.Client()
	_, err := line.AwaitResult(view.TransactionInBackground(ctx, m.Write(w.build(view.TransactionOp())...)...))
	var step nextWriteStep
	w.mayBeExecuted, step, err = afterWriteAttempt(m.OutcomeOf(err, w.mayBeExecuted), err, w.mayBeExecuted, m.Forbidden)
	switch step {
	case writeExecuted:
		m.Written()
	case replacesMark:
		w.replaceMark(m.Session)
	case omitsMark:
		m.Forbidden = true
	}
	return step == replacesMark || step == omitsMark, err
}

// nextWriteStep is the next step after a try.
type nextWriteStep int8

const (
	writeExecuted nextWriteStep = iota // the write was executed
	attemptEnds                        // the try ends with an error
	replacesMark                       // it was not executed, and is sent with another mark
	omitsMark                          // it was not executed, and is sent without a mark
)

// afterWriteAttempt returns whether the write may have been executed after a try, the next step, and the error. noMark
// means that the server accepts no mark.
func afterWriteAttempt(outcome mark.Outcome, err error, unknown, noMark bool) (bool, nextWriteStep, error) {
	switch {
	case outcome == mark.Done:
		return false, writeExecuted, nil
	case outcome == mark.NoRefusal:
		unknown = unknown || errors.Is(err, framework.ErrOutcomeUnknown)
		if unknown && noMark {
			err = errMarkRefused
		}
		return unknown, attemptEnds, err
	case outcome == mark.Refused:
		return false, attemptEnds, err
	case unknown:
		return true, attemptEnds, errMarkGone // another client has deleted the mark
	case outcome == mark.MarkChanged:
		return false, replacesMark, err // another client has changed or deleted it
	case !errors.Is(err, framework.ErrNoAuth):
		return false, attemptEnds, err
	}
	return false, omitsMark, err
}

func (w *markedWrite) createMark(ctx context.Context) (err error) {
	m := w.mark
	for range 3 { // the directory may be deleted, also by the server when it is unused
		_, err = line.AwaitResult(m.Create().InBackground().ForPath(ctx, m.Path, []byte{}))
		if errors.Is(err, framework.ErrNoNode) {
			_, err = line.AwaitResult(m.Session.Client().Create().CreatingParentContainersIfNeeded().
				WithMode(framework.Container).Uncompressed().InBackground().ForPath(ctx, w.markDir, []byte{}))
			if line.IgnoreError(err, framework.ErrNodeExists) == nil {
				continue
			}
		}
		break
	}
	switch err = line.IgnoreError(err, framework.ErrNodeExists); { // made by a try whose reply was lost
	case err == nil:
		m.Created = true
	case errors.Is(err, framework.ErrNoAuth):
		m.Forbidden, err = true, nil
	}
	return err
}

// replaceMark has the next write use a new mark.
func (m *markedWriter) replaceMark(session *framework.Session) {
	m.forgetMark()
	m.mark = mark.New(session, m.markDir)
}

// forgetMark deletes the mark in the background.
func (m *markedWriter) forgetMark() {
	m.mark.Forget()
	m.mark = nil
}

const (
	// markIdleTime is the time that a producer's mark stays after its last write.
	markIdleTime = 10 * time.Second
	// writesInFlight is the number of a producer's writes in flight at a time, each with its own mark.
	writesInFlight = 8
)

// markedWriters are a producer's writers, writesInFlight at most. Safe for concurrent use.
type markedWriters struct {
	client  *framework.Client
	markDir string
	slots   chan struct{} // one per writer in use

	mu          sync.Mutex
	freeWriters []*markedWriter // the most recently used at the end; guarded by mu
	sweeperRuns bool            // a goroutine removes unused writers; guarded by mu
}

func newMarkedWriters(client *framework.Client, dir string) *markedWriters {
	return &markedWriters{client: client, markDir: dir, slots: make(chan struct{}, writesInFlight)}
}

// writeExactlyOnce is [markedWriter.writeExactlyOnce] with one of the writers.
func (p *markedWriters) writeExactlyOnce(ctx context.Context, build operationBuilder) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return p.client.WaitError(ctx, nil)
	}
	m := p.takeWriter()
	defer p.returnWriter(m)
	return m.writeExactlyOnce(ctx, build)
}

func (p *markedWriters) takeWriter() *markedWriter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.freeWriters); n > 0 {
		m := p.freeWriters[n-1]
		p.freeWriters = p.freeWriters[:n-1]
		return m
	}
	return &markedWriter{client: p.client, markDir: p.markDir}
}

func (p *markedWriters) returnWriter(m *markedWriter) {
	if m.mark == nil {
		return
	}
	m.mark.Used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeWriters = append(p.freeWriters, m)
	if !p.sweeperRuns {
		p.sweeperRuns = true
		p.client.Spawn(p.forgetUnused)
	}
}

// forgetUnused removes unused writers and their marks, so that an idle producer leaves no nodes.
func (p *markedWriters) forgetUnused(ctx context.Context) {
	for wait := markIdleTime; wait > 0; {
		p.client.Pause(ctx, wait)
		if p.client.Err() != nil {
			return // the marks go with the session
		}
		var unused []*markedWriter
		unused, wait = p.removeUnused()
		for _, m := range unused {
			m.forgetMark()
		}
	}
}

// removeUnused removes and returns the writers that were idle for markIdleTime, and the time until the next one was; 0
// if none is left.
func (p *markedWriters) removeUnused() (unused []*markedWriter, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.freeWriters) > 0 {
		if wait = markIdleTime - time.Since(p.freeWriters[0].mark.Used); wait > 0 {
			return unused, wait
		}
		unused, p.freeWriters = append(unused, p.freeWriters[0]), p.freeWriters[1:]
	}
	p.sweeperRuns = false
	return unused, 0
}
