package framework

import (
	"context"

	"github.com/go-curator/curator/internal/wire"
)

// operation describes an operation of a caller: its request, how the reply is decoded, and the next step after an
// error. Each call of ForPath makes a new one, and an operationRun executes it.
type operation[T any] struct {
	c              *Client
	name           string // for OpError and Hooks
	mutates        bool   // it changes the tree, so a lost reply means an unknown outcome
	createsRoot    bool   // with the path "/" in a namespace, it creates the root if that is missing
	path           string // as given by the caller
	argumentError  error  // if set, the operation fails with it, and nothing is sent
	requiredParent string // of a create: the full path of the node that must exist; for error messages

	procedure[T]
	slowToDecode    bool // decodeReply may take long
	storesStat      bool // decodeReply also sets a variable of the caller's
	exemptFromLimit bool // does not count for the limit of the operations in the background
	maxInFlight     int  // of requests for one shared read, see Background.Shared; 0: not shared
	// resultIfAbsent, if set, is the result when the node does not exist. Without it that is an error, ErrNoNode.
	resultIfAbsent *T
	// watch, if set, is armed by the request, and disarmed when the request fails.
	watch watchArmer

	unknownPolicy unknownOutcomePolicy
	// ambiguousErrors are the refusals of a repeat that may be due to the success of an earlier try.
	ambiguousErrors []error
	// leftovers, if set, tracks the nodes that the operation may leave in the tree when it fails.
	leftovers leftoverTracker[T]
}

// procedure is the part of an operation that differs between kinds: its request and its reply. The most frequent
// kinds have a type that contains the operation and implements procedure, which saves allocations. The others use
// functionProcedure.
type procedure[T any] interface {
	// newRequest makes the request of one try.
	newRequest(e *sessionEpoch) *wire.Call
	// decodeReply decodes the body of a successful reply; zxid is from the reply's header. Unless the operation is
	// slowToDecode, decodeReply must not block or take long: in the background it runs on the goroutine that reads the
	// session's connection.
	decodeReply(zxid int64, body []byte) (T, error)
	// recoveryAfter returns the step that may help after an error, or nil. It must not block; the step may block.
	recoveryAfter(err error) recoveryStep[T]
}

// functionProcedure is a procedure that consists of functions. recovery may be nil.
type functionProcedure[T any] struct {
	makeRequest func() *wire.Call
	decode      func(zxid int64, body []byte) (T, error)
	recovery    func(err error) recoveryStep[T]
}

func (f functionProcedure[T]) newRequest(*sessionEpoch) *wire.Call { return f.makeRequest() }

func (f functionProcedure[T]) decodeReply(zxid int64, body []byte) (T, error) {
	return f.decode(zxid, body)
}

func (f functionProcedure[T]) recoveryAfter(err error) recoveryStep[T] {
	if f.recovery == nil {
		return nil
	}
	return f.recovery(err)
}

// recoveryStep continues a try after an error, for example by creating a missing parent. If again is true, the request
// is sent once more; otherwise v and err are the result of the try.
type recoveryStep[T any] func(ctx context.Context, r *operationRun[T]) (v T, again bool, err error)

// watchArmer has the watches that the request of an operation arms.
type watchArmer interface {
	armWatches(e *sessionEpoch, call *wire.Call)
	disarmWatches()
}

// unknownOutcomePolicy determines what an operation does after a try with an unknown outcome.
type unknownOutcomePolicy int8

const (
	// unknownRepeat sends the request again: a repeat does no harm. This is the default.
	//lint:ignore U1000 the zero value, which no operation needs to name
	unknownRepeat unknownOutcomePolicy = iota
	// unknownGiveUp sends nothing more: a repeat could take effect a second time.
	unknownGiveUp
	// unknownCompare sends the request again, also in the background. If the repeat is refused with an ambiguous
	// error, the recovery step compares the tree with the state that the earlier try would have left.
	unknownCompare
	// unknownSearch looks for the node of the earlier try with leftovers.recoverOutcome before it sends the request
	// again, also in the background.
	unknownSearch
)

// leftoverTracker tracks the nodes that an operation may leave in the tree, and hands them over to the clean-ups. Its
// methods do not block, except recoverOutcome.
type leftoverTracker[T any] interface {
	// recoverOutcome determines, before another try, whether an earlier try with an unknown outcome was executed. If
	// so, done is true and v is the result. It is called only with unknownSearch.
	recoverOutcome(ctx context.Context, r *operationRun[T]) (v T, done bool, err error)
	// recordOutcome is called with the outcome of each request whose reply came while the caller waited.
	recordOutcome(err error)
	// takeLateReply is called with a reply that came after the caller had stopped waiting.
	takeLateReply(reply wire.Reply)
	// settleFailure is called when the operation ends with err, and returns the error for the caller. If abandoned is
	// true, a request is still in flight, and takeLateReply will be called with its reply.
	settleFailure(err error, abandoned bool) error
}

// operationRun is the execution of an operation. In the foreground it runs on the caller's goroutine, with as many
// tries as the retry policy allows. In the background the caller's goroutine only queues the first request; if the
// reply is not the result yet, another goroutine of the client continues.
type operationRun[T any] struct {
	*operation[T]
	reportEnd  func(OperationEnd) // reports the end to the hooks; nil if there are none
	epoch      *sessionEpoch      // the epoch of the current try
	unknownIn  *sessionEpoch      // the epoch of a try with an unknown outcome; nil without such a try
	zxidBefore int64              // of a write: the client's highest zxid before the first request; -1 until then
	firstEpoch *sessionEpoch      // the epoch of that first request
	tries      int                // begun so far, including the current one
	result     T                  // of the last try in the foreground

	background     bool
	endReported    bool // reportEnd has been called, but may not have returned yet
	wasCutOff      bool // the server has closed the connection, probably because of the size of this request
	abandoned      bool // the caller has stopped waiting for a request in flight: leftovers gets the reply
	countsForLimit bool // the operation counts for the limit of the background until its first reply
	inSharedRead   bool // its request counts for maxInFlight, until its reply
	sharedResult   *any // the result that the sharers of a reply have in common; nil without sharers
}
