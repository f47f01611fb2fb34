package framework

import (
	"context"
	"errors"

	"github.com/go-curator/curator/internal/wire"
)

// operation describes an operation of a caller: its request, how the answer is read, and the next step after an error.
// ForPath makes a new operation each time; a run executes it.
type operation[T any] struct {
	c *Client
	operationKind
	path           string // as given
	argumentError  error  // a mistake in the arguments: nothing is sent
	requiredParent string // for a create: the full path of the node that has to exist

	procedure[T]
	slowToDecode    bool // decodeReply takes long
	exemptFromLimit bool // does not count for the limit of the operations in the background
	shareAfter      int  // with Shared; else 0
	// empty, if set, is the result when the server answers ErrNoNode.
	resultIfAbsent *T
	// watch, if set, is armed by the request, and disarmed when the request fails.
	watch watchArmer

	unknownPolicy unknownOutcomePolicy
	// ambiguous lists the errors that a repeat after an unknown outcome may get because the earlier try
	// succeeded.
	ambiguousErrors []error
	// leftovers, if set, cleans up nodes that the operation may leave behind when it fails or its context ends first.
	leftovers leftoverTracker[T]
}

// procedure has the parts of an operation's execution. The most frequent operations implement it themselves, in one
// object, to save allocations; the others are [functionProcedure].
type procedure[T any] interface {
	// newRequest makes the request of a try; each try needs a new request.
	newRequest(e *sessionEpoch) *wire.Call
	// decodeReply reads the answer, which has this zxid. In the background it runs on the goroutine that reads
	// answers and pings: it must not block or take long. If the operation is slowToDecode it runs elsewhere.
	decodeReply(zxid int64, body []byte) (T, error)
	// recoveryAfter returns the step that may help after an error, or nil. It must not block; the step may.
	recoveryAfter(err error) recoveryStep[T]
}

// functionProcedure is a procedure that consists of functions. recovery may be nil.
type functionProcedure[T any] struct {
	makeRequest func(e *sessionEpoch) *wire.Call
	decode      func(zxid int64, body []byte) (T, error)
	recovery    func(err error) recoveryStep[T]
}

func (f functionProcedure[T]) newRequest(e *sessionEpoch) *wire.Call { return f.makeRequest(e) }

func (f functionProcedure[T]) decodeReply(zxid int64, body []byte) (T, error) {
	return f.decode(zxid, body)
}

func (f functionProcedure[T]) recoveryAfter(err error) recoveryStep[T] {
	if f.recovery == nil {
		return nil
	}
	return f.recovery(err)
}

// operationKind has the properties that all operations of one name share.
type operationKind struct {
	name        string // for OpError
	mutates     bool   // the operation changes the tree: an unknown outcome matters
	createsRoot bool   // on the root of a namespace, the operation creates a missing root
}

// recoveryStep continues after an error. With again, the request is sent once more; otherwise the step's result is
// the try's result.
type recoveryStep[T any] func(ctx context.Context, r *operationRun[T]) (v T, again bool, err error)

// watchArmer is the watches of an operation: its request arms them, and if it fails they are disarmed.
type watchArmer interface {
	armWatches(e *sessionEpoch, call *wire.Call)
	disarmWatches()
}

// doubtPolicy is the reaction of an operation to a try with an unknown outcome.
type unknownOutcomePolicy int8

const (
	// doubtRepeats sends the request again: a repeat does no harm.
	//lint:ignore U1000 it is what operations have that name none
	unknownRepeat unknownOutcomePolicy = iota
	// doubtEnds gives up: a repeat could take effect a second time.
	unknownGiveUp
	// doubtCompares repeats. After an ambiguous error it looks whether the tree is as the earlier try would
	// have left it.
	unknownCompare
	// doubtSearches first looks for the node of the earlier try, with leftovers.recoverOutcome.
	unknownSearch
)

// leftoverTracker keeps track of what an operation may leave in the tree. Its methods never block, except
// recoverOutcome.
type leftoverTracker[T any] interface {
	// recoverOutcome finds out, before another try, whether an earlier try with an unknown outcome was executed. If
	// so, done is true and v is the result. Only for doubtSearches.
	recoverOutcome(ctx context.Context, r *operationRun[T]) (v T, done bool, err error)
	// recordOutcome receives the outcome of a request whose reply the caller has awaited.
	recordOutcome(err error)
	// takeLateReply gets an answer that came after the caller had left.
	takeLateReply(reply wire.Reply)
	// settleFailure is called when the operation has ended with an error. left means that takeLateReply will still be
	// called. It returns the error for the caller.
	settleFailure(err error, left bool) error
}

// operationRun is the execution of an operation. The foreground executes it on the caller's goroutine and repeats
// it as the retry policy says. The background queues the first request and returns. If the reply does not settle
// the operation, a goroutine of the client continues it.
type operationRun[T any] struct {
	*operation[T]
	reportEnd  func(OperationEnd) // reports the end to the hooks; nil if there are none
	epoch      *sessionEpoch      // the epoch of the current try
	unknownIn  *sessionEpoch      // the epoch in which a try had an unknown outcome, or nil
	zxidBefore int64              // the highest zxid known before the first request of a write; -1 until set
	firstEpoch *sessionEpoch      // the epoch of that request
	tries      int
	result     T // the result of the last try in the foreground

	background     bool
	endReported    bool // reportEnd has been called, and may not have returned
	wasCutOff      bool // the server has closed the connection because of the request
	abandoned      bool // the caller left while the request was in flight: leftovers gets the answer
	countsForLimit bool // for the limit of those in the background
	inSharedRead   bool // its request counts in a sharedRead
	sharedResult   *any // its answer, decoded for all who share it; nil if none do
}

// errorClass is the meaning of an error for another try.
type errorClass int8

const (
	classRefused    errorClass = iota // by the server, or for a mistake: another try would fail in the same way
	classFinal                        // the client is closed, or the outcome of a try cannot be determined
	classSession                      // the session has ended: another try runs in the next one
	classConnection                   // the way to the server has failed, not the operation
)

func classifyError(err error) errorClass {
	switch {
	case errors.Is(err, errAmbiguous), errors.Is(err, ErrClosed):
		return classFinal
	case errors.Is(err, ErrSessionLost):
		return classSession
	case isTransient(err):
		return classConnection
	}
	return classRefused
}

// retrySituation has all inputs of the decision after an error.
type retrySituation struct {
	class        errorClass
	hasStep      bool                 // there is a step for this error
	stepsTaken   int                  // taken in this try
	policy       unknownOutcomePolicy // of the operation
	unknown      bool                 // an earlier try may have been executed
	sessionBound bool                 // the operation belongs to its session
	background   bool
	tries        int // so far
}

// retryDecision is the reaction of an operation to an error.
type retryDecision int8

const (
	giveUp   retryDecision = iota // report the error
	takeStep                      // take the step, and possibly send the request again
	tryAgain                      // in the foreground as the retry policy says, in the background immediately
)

// decideRetry is a pure function. The background makes one try, and a second try only to find out about the first.
func (s retrySituation) decideRetry() retryDecision {
	switch {
	case s.hasStep && s.stepsTaken < maxRounds:
		return takeStep
	case s.class == classFinal:
	case s.background:
		if s.unknown && s.tries < 2 && (s.policy == unknownCompare || s.policy == unknownSearch) {
			return tryAgain
		}
	case s.unknown && s.policy == unknownGiveUp:
	case s.class == classSession && !s.sessionBound, s.class == classConnection:
		return tryAgain
	}
	return giveUp
}
