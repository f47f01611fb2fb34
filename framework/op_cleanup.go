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
	maxCleanups = 1 << 16 // limits memory
	maxCleaners = 32      // limits goroutines

	// The range of pauses before a failed clean-up is repeated.
	minCleanupPause = 100 * time.Millisecond
	maxCleanupPause = 10 * time.Second
)

// nodeCleanup describes a node that the client deletes after the operation has ended. With a guid it is the node of a
// protected create with an unknown outcome, whose name must be found first.
type nodeCleanup struct {
	path         string // the full path of the node, or with a guid of its parent
	version      int32
	withChildren bool
	guid         string
	createEpoch  *sessionEpoch // with a guid: the epoch in which the create was sent
	boundTo      *sessionEpoch // the clean-up is dropped after the end of this epoch; nil: it is not bound to an epoch
}

type cleanupJob struct {
	nodeCleanup
	tries        int
	createLostAt time.Time // with a guid: when createEpoch was first found to have ended
}

// cleanupQueue executes clean-ups: of guaranteed deletes that have failed, and of protected creates that have failed or
// whose callers have stopped waiting. It never uses a caller's context. Without a connection its requests wait in the
// session's queue, so that they are among the first on the next connection. A clean-up that fails is repeated after a
// growing pause.
type cleanupQueue struct {
	core    *clientBase
	workers *workerGroup

	mu          sync.Mutex                  // guards the fields below
	pending     map[nodeCleanup]struct{}    // all clean-ups that have not ended
	lateReplies int                         // replies still to come that may add clean-ups: their callers do not wait
	dueJobs     []*cleanupJob               // wait for a goroutine
	delayedJobs map[*cleanupJob]*time.Timer // wait for their timers, which make them due
	cleaners    int                         // the number of goroutines
	idle        chan struct{}               // closed when there is no pending or expected clean-up; nil unless drain waits
}

// expectLateReplies adds to the number of late replies.
func (q *cleanupQueue) expectLateReplies(more int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lateReplies += more
	q.signalIfIdle()
}

// signalIfIdle wakes drain if no clean-up is pending or expected. mu is held.
func (q *cleanupQueue) signalIfIdle() {
	if len(q.pending)+q.lateReplies == 0 && q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

// addCleanup queues a clean-up, or returns ErrCleanupFull if there are too many. It does not block.
func (q *cleanupQueue) addCleanup(cleanup nodeCleanup) error {
	if q.workers.ctx.Err() != nil {
		return nil // the client is closed
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

// queueJobs queues jobs that are due, and starts another goroutine if maxCleaners allows it. mu is held.
func (q *cleanupQueue) queueJobs(due ...*cleanupJob) {
	q.dueJobs = append(q.dueJobs, due...)
	if q.cleaners < maxCleaners && q.workers.ctx.Err() == nil {
		q.cleaners++
		q.workers.spawn(q.runJobs)
	}
}

// runJobs is one of the goroutines. It ends when no job is due.
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

// close drops the jobs that wait for their timers. It is called after the end of the other goroutines.
func (q *cleanupQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for job, timer := range q.delayedJobs {
		timer.Stop()
		delete(q.delayedJobs, job)
	}
}

// runJob tries a job once. again reports whether another try must follow, after the pause.
func (q *cleanupQueue) runJob(ctx context.Context, job *cleanupJob) (pause time.Duration, again bool) {
	e := job.boundTo
	if e == nil {
		e = q.core.latestEpoch()
	}
	if e == nil || job.boundTo != nil && e.ctx.Err() != nil {
		return 0, false // the client is closed, or the clean-up's own session has ended
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
		err = sendRequest(ctx, e, deleteCall(cleanup.path, cleanup.version))
		if !errors.Is(err, ErrNotEmpty) || !cleanup.withChildren {
			return err
		}
		if err = deleteChildren(ctx, e, cleanup.path, waitIndefinitely); err != nil {
			return err
		}
	}
	return err
}

// searchAndRemove removes the node of a create with an unknown outcome. If there is no node, the search is conclusive in
// the epoch of the create. In a later epoch a member of the ensemble may still execute the create, as long as its
// session has not expired. Then again is true: the search is repeated after twice the session timeout.
func (q *cleanupQueue) searchAndRemove(
	ctx context.Context, e *sessionEpoch, job *cleanupJob,
) (pause time.Duration, again bool, _ error) {
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
	pause = job.createLostAt.Add(2 * job.createEpoch.wire.Timeout()).Sub(began)
	return pause, pause > 0, nil
}

// isSearchConclusive reports whether no other node of a create can appear after a search. That is certain if the search
// ran in the epoch of the create, or if its node was found; otherwise only after the session of the create has expired.
func isSearchConclusive(sameEpoch, found bool) bool { return sameEpoch || found }

// drain waits until no clean-up is pending or expected. It returns early if ctx ends, if the session ends, or if there
// is no connection at the beginning.
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

// transitionKey and transitionResult are the key and the value of an entry in the tables of the state machines.
type transitionKey[S, E any] struct {
	state S
	event E
}

type transitionResult[S, A any] struct {
	state  S
	action A
}

// removalState is the state of a removal that the client does not give up. A guaranteed delete begins as removalCalled,
// a clean-up as removalQueued.
type removalState int8

const (
	removalCalled    removalState = iota // the caller waits for the operation
	removalAbandoned                     // the request is in flight, and its caller has stopped waiting
	removalQueued                        // the removal is a clean-up
	removalEnded
)

// removalEvent is the outcome of a removal's request, or the end of the caller's wait.
type removalEvent int8

const (
	removalSucceeded     removalEvent = iota
	removalRefused                    // by the server
	removalUnfinished                 // not executed, or the outcome is unknown
	removalBlocked                    // refused because of children, which have to be deleted, too
	removalCallerStopped              // the caller has stopped waiting
	removalObsolete                   // the client is closed
)

// removalAction is the action of a transition.
type removalAction int8

const (
	removalNoAction removalAction = iota
	removalCleanup                // queue a clean-up
	removalRetry                  // try again after a pause
	removalWarn                   // log that the node stays
)

// removalTransitions has the transitions of a removal. An event without an entry ends the removal.
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

// removalEventOf returns the event for the error of a removal's request.
func removalEventOf(err error) removalEvent {
	switch {
	case ignoreNoNode(err) == nil:
		return removalSucceeded
	case isUnfinished(err):
		return removalUnfinished
	}
	return removalRefused
}

// deleteChildren deletes the nodes below a node, depth first, but not the node. It skips nodes that other clients delete
// in the meantime. setPatience is applied to each request.
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

// ignoreNoNode returns nil if err is ErrNoNode, otherwise err.
func ignoreNoNode(err error) error {
	if errors.Is(err, ErrNoNode) {
		return nil
	}
	return err
}

// searchProtected returns the full paths of the nodes below parent that have the protection prefix with guid, normally
// one or none. setPatience is applied to each request.
//
// It sends two requests together: a write, then a list. Without the write a list without the node would prove nothing:
//
//  1. The server executes the requests of a session in order. So when it replies to the write, each earlier request of
//     this session was executed or will never be.
//  2. The reply to the write shows that the connected server has seen all transactions up to the write, and so has the
//     list that follows.
//
// It matters only that the write goes through the ensemble. A transaction that consists of a failed check does, too.
func searchProtected(
	ctx context.Context, e *sessionEpoch, parent, guid string, setPatience patienceSetter,
) ([]string, error) {
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

// searchCalls returns the two requests of searchProtected.
func searchCalls(parent string) (write, list *wire.Call) {
	write = &wire.Call{Op: jute.OpMulti, Body: jute.Checks(parent)}
	return write, readCall(jute.OpGetChildren2, parent)
}

// inconclusiveReason returns the reason why the replies to a search do not prove which nodes exist, or nil if they do.
// It is ErrNoNode if the parent does not exist, so that there are no nodes.
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
