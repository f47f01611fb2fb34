package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

const (
	// maxCleanups limits the memory of clean-ups, maxCleaners their goroutines.
	maxCleanups = 1 << 16
	maxCleaners = 32

	minCleanupPause = 100 * time.Millisecond
	maxCleanupPause = 10 * time.Second
)

// nodeCleanup describes a node to be removed. With a guid it is the protected node of a create whose outcome is
// unknown.
type nodeCleanup struct {
	path         string // full path of the node; with a guid, of the parent
	version      int32
	withChildren bool
	guid         string
	createEpoch  *sessionEpoch // with a guid: the epoch in which the create ran
	boundTo      *sessionEpoch // the epoch whose end deletes the node; nil for other nodes than ephemeral ones
}

type cleanupJob struct {
	nodeCleanup
	tries        int
	createLostAt time.Time // when origin was first seen to be over
}

// cleanupQueue removes the nodes of failed guaranteed deletes, and of protected creates whose callers have stopped
// waiting. It never uses a caller's context. While there is no connection its requests wait in the session's queue,
// so that they are among the first on the next connection. Failures are repeated with a growing pause.
type cleanupQueue struct {
	core    *clientBase
	workers *workerGroup

	mu          sync.Mutex               // guards the fields below
	pending     map[nodeCleanup]struct{} // queued and running
	lateReplies int                      // answers still to come that may become clean-ups: their callers have left
	dueJobs     []*cleanupJob
	delayedJobs map[*cleanupJob]*time.Timer // jobs that their timers will make ready
	cleaners    int                         // how many goroutines there are
	idle        chan struct{}               // closed when nothing is pending or awaited; nil if nothing waits for that
}

func (q *cleanupQueue) expectLateReplies(more int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lateReplies += more
	q.signalIfIdle()
}

// signalIfIdle wakes drain if nothing is left to do. mu is held.
func (q *cleanupQueue) signalIfIdle() {
	if len(q.pending)+q.lateReplies == 0 && q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

// addCleanup queues a clean-up. It returns ErrCleanupFull if there are too many. It does not block.
func (q *cleanupQueue) addCleanup(cleanup nodeCleanup) error {
	if q.workers.ctx.Err() != nil {
		return nil // closed: all goroutines have ended
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.pending[cleanup]; known {
		return nil
	}
	if len(q.pending) >= maxCleanups {
		q.core.log.Warn("too many guaranteed deletes are pending; not retrying this one, so its node may stay",
			"path", cleanup.path)
		return ErrCleanupFull
	}
	q.pending[cleanup] = struct{}{}
	q.queueJobs(&cleanupJob{nodeCleanup: cleanup})
	return nil
}

// queueJobs queues jobs that are due, and starts another goroutine if that is allowed. mu is held.
func (q *cleanupQueue) queueJobs(due ...*cleanupJob) {
	q.dueJobs = append(q.dueJobs, due...)
	if q.cleaners < maxCleaners && q.workers.ctx.Err() == nil {
		q.cleaners++
		q.workers.spawn(q.runJobs)
	}
}

func (q *cleanupQueue) runJobs() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ctx := q.workers.ctx; len(q.dueJobs) > 0 && ctx.Err() == nil; {
		job := q.dueJobs[0]
		if q.dueJobs = q.dueJobs[1:]; len(q.dueJobs) > 0 {
			q.queueJobs()
		}
		q.mu.Unlock()
		pause, again := q.runJob(ctx, job)
		q.mu.Lock()
		if again {
			q.delayedJobs[job] = time.AfterFunc(pause, func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				if _, waits := q.delayedJobs[job]; waits {
					delete(q.delayedJobs, job)
					q.queueJobs(job)
				}
			})
		} else {
			delete(q.pending, job.nodeCleanup)
			q.signalIfIdle()
		}
	}
	q.cleaners--
}

// close drops the jobs that wait for their timers.
func (q *cleanupQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for job, timer := range q.delayedJobs {
		timer.Stop()
		delete(q.delayedJobs, job)
	}
}

// runJob tries a job once, and returns whether to try again, and after which pause.
func (q *cleanupQueue) runJob(ctx context.Context, job *cleanupJob) (pause time.Duration, again bool) {
	e := job.boundTo
	if e == nil {
		e = q.core.latestEpoch()
	}
	if e == nil || job.boundTo != nil && e.ctx.Err() != nil {
		return 0, false // the client is closed, or the node is gone with its session
	}
	var err error
	if job.guid == "" {
		err = q.removeNode(ctx, e, job.nodeCleanup)
	} else if pause, again, err = q.searchAndRemove(ctx, e, job); err == nil {
		return pause, again
	}
	ev := removalEventOf(err)
	if errors.Is(err, ErrClosed) || ctx.Err() != nil {
		ev = removalObsolete
	}
	switch _, action := removalQueued.next(ev); action {
	case removalRetry:
		pause = min(minCleanupPause<<min(job.tries, 10), maxCleanupPause)
		job.tries++
		return q.core.chance.UpTo(pause), true
	case removalWarn:
		q.core.log.Warn("the server refused a guaranteed delete; the node stays",
			"path", job.path, "guid", job.guid, "err", err)
	}
	return 0, false
}

func (q *cleanupQueue) removeNode(ctx context.Context, e *sessionEpoch, cleanup nodeCleanup) (err error) {
	for range maxRounds {
		if err = sendRequest(ctx, e, deleteCall(cleanup.path, cleanup.version)); !errors.Is(err, ErrNotEmpty) || !cleanup.withChildren {
			return err
		}
		if err = deleteChildren(ctx, e, cleanup.path, waitIndefinitely); err != nil {
			return err
		}
	}
	return err
}

// searchAndRemove removes the node of a create with an unknown outcome. In the epoch of the create, a list without
// the node ends the job. In a later epoch the create may still be in flight to a member of the ensemble; then
// searchAndRemove is repeated once that session is certainly gone.
func (q *cleanupQueue) searchAndRemove(ctx context.Context, e *sessionEpoch, job *cleanupJob) (time.Duration, bool, error) {
	if job.createLostAt.IsZero() && job.createEpoch.ctx.Err() != nil {
		job.createLostAt = time.Now()
	}
	began := time.Now()
	found, err := searchProtected(ctx, e, job.path, job.guid, waitIndefinitely)
	if err != nil {
		return 0, false, err
	}
	for _, path := range found {
		if err := sendRequest(ctx, e, deleteCall(path, -1)); ignoreNoNode(err) != nil {
			return 0, false, err
		}
	}
	if isSearchConclusive(e == job.createEpoch, len(found) > 0) {
		return 0, false, nil
	}
	left := job.createLostAt.Add(2 * job.createEpoch.wire.Timeout()).Sub(began)
	return left, left > 0, nil
}

// isSearchConclusive reports whether no other node of a create can exist. That is certain if the create ran in the
// epoch of the search (here) or its node was found; otherwise only after its session has expired.
func isSearchConclusive(sameEpoch, found bool) bool { return sameEpoch || found }

// drain waits until nothing is pending. It returns early if ctx ends, or if there is no connection or the session is
// lost.
func (q *cleanupQueue) drain(ctx context.Context) {
	e := q.core.latestEpoch()
	if e == nil || !e.wire.Connected() {
		return
	}
	q.mu.Lock()
	if len(q.pending)+q.lateReplies == 0 {
		q.mu.Unlock()
		return
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	q.mu.Unlock()
	select {
	case <-idle:
	case <-e.ctx.Done():
	case <-ctx.Done():
	}
}

// transitionKey and transitionResult are the two halves of a transition in the tables of the state machines.
type transitionKey[S, E any] struct {
	state S
	event E
}

type transitionResult[S, A any] struct {
	state  S
	action A
}

// removalState is the state of a removal that the client does not give up: a guaranteed delete, or a
// clean-up.
type removalState int8

const (
	removalCalled    removalState = iota // the caller waits for the operation
	removalAbandoned                     // the request is in flight, and its caller has left
	removalQueued                        // the removal is a clean-up
	removalEnded
)

type removalEvent int8

const (
	removalSucceeded     removalEvent = iota
	removalRefused                    // by the server
	removalUnfinished                 // not executed, or the outcome is unknown
	removalBlocked                    // by children, which have to be deleted, too
	removalCallerStopped              // the caller has left
	removalObsolete                   // the client is closed, or the node has gone with its session
)

type removalAction int8

const (
	removalNoAction removalAction = iota
	removalCleanup                // make the removal a clean-up
	removalRetry                  // try again after a pause
	removalWarn                   // log that the node stays
)

// removalMoves are the transitions of a removal. An event without an entry ends the removal.
var removalTransitions = map[transitionKey[removalState, removalEvent]]transitionResult[removalState, removalAction]{
	{removalCalled, removalCallerStopped}: {removalAbandoned, removalNoAction},
	{removalCalled, removalUnfinished}:    {removalQueued, removalCleanup},
	{removalAbandoned, removalUnfinished}: {removalQueued, removalCleanup},
	{removalAbandoned, removalBlocked}:    {removalQueued, removalCleanup},
	{removalQueued, removalUnfinished}:    {removalQueued, removalRetry},
	{removalQueued, removalRefused}:       {removalEnded, removalWarn},
}

func (s removalState) next(ev removalEvent) (removalState, removalAction) {
	move, ok := removalTransitions[transitionKey[removalState, removalEvent]{s, ev}]
	if !ok {
		return removalEnded, removalNoAction
	}
	return move.state, move.action
}

// removalEventOf returns the event for an operation's error.
func removalEventOf(err error) removalEvent {
	switch {
	case ignoreNoNode(err) == nil:
		return removalSucceeded
	case isUnfinished(err):
		return removalUnfinished
	}
	return removalRefused
}

// deleteChildren deletes everything that is below a node now. It skips nodes that others have deleted in the meantime.
func deleteChildren(ctx context.Context, e *sessionEpoch, full string, setPatience patienceSetter) error {
	var list jute.Children2Response
	if err := sendAndDecode(ctx, e, setPatience(readCall(jute.OpGetChildren2, full)), &list); err != nil {
		return ignoreNoNode(err)
	}
	for names := range slices.Chunk(list.Children, 256) {
		calls := make([]*wire.Call, len(names))
		for i, name := range names {
			calls[i] = setPatience(deleteCall(zkpath.Join(full, name), -1))
		}
		replies, err := awaitReplies(ctx, e, calls...)
		if err != nil {
			return err
		}
		for i, r := range replies {
			child := zkpath.Join(full, names[i])
			err := replyError(r)
			for n := 0; n < maxRounds && errors.Is(err, ErrNotEmpty); n++ {
				if err = deleteChildren(ctx, e, child, setPatience); err != nil {
					break
				}
				err = sendRequest(ctx, e, setPatience(deleteCall(child, -1)))
			}
			if ignoreNoNode(err) != nil {
				return fmt.Errorf("child %s: %w", plain.Text(names[i]), err)
			}
		}
	}
	return nil
}

func ignoreNoNode(err error) error {
	if errors.Is(err, ErrNoNode) {
		return nil
	}
	return err
}

// searchProtected looks for a protected node below parent in one flight: a committed write of our own, then the
// list. Because of the write a list without the node is conclusive: by then every request that this session has
// sent before has been decided, and its effect is visible. It matters only that the write went through the
// ensemble, not how the server answers it: a failed check is enough.
//
// searchProtected returns the full paths of the nodes, in the list's order. There are several only if a create was
// repeated that should not have been.
func searchProtected(ctx context.Context, e *sessionEpoch, parent, guid string, setPatience patienceSetter) ([]string, error) {
	write, list := searchCalls(parent)
	replies, err := awaitReplies(ctx, e, setPatience(write), setPatience(list))
	if err != nil {
		return nil, err
	}
	wrote, listed := replies[0], replies[1]
	if err := inconclusiveReason(wrote, listed); err != nil {
		return nil, ignoreNoNode(err)
	}
	var children jute.Children2Response
	if err := decodeRecord(listed.Body, children.Fields); err != nil {
		return nil, err
	}
	var found []string
	prefix := zkpath.Protect(guid, "")
	for _, name := range children.Children {
		if strings.HasPrefix(name, prefix) {
			found = append(found, zkpath.Join(parent, name))
		}
	}
	return found, nil
}

// searchCalls returns the requests of a search.
func searchCalls(parent string) (write, list *wire.Call) {
	write = &wire.Call{Op: jute.OpMulti, Body: jute.Checks(parent)}
	return write, readCall(jute.OpGetChildren2, parent)
}

// inconclusiveReason returns the reason why the replies to a search do not show which nodes exist, nil if they do.
// It is ErrNoNode if the parent does not exist.
func inconclusiveReason(wrote, listed wire.Reply) error {
	if err := replyError(wrote); err != nil && !matchesAny(err, ErrNoNode, ErrNoAuth) {
		return err
	}
	if err := replyError(listed); err != nil {
		return err
	}
	if wrote.Connection != listed.Connection {
		return ErrConnectionLoss // the list may come from a member that has not seen the write
	}
	return nil
}
