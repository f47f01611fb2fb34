package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// sentinelError is an error that callers find by errors.Is. It also matches other errors: above all the go-zookeeper
// error of the same meaning, so that code written for go-zookeeper keeps working.
type sentinelError struct {
	text        string
	alsoMatches []error
}

func (s *sentinelError) Error() string { return s.text }

func (s *sentinelError) Is(target error) bool {
	for _, e := range s.alsoMatches {
		if e == target {
			return true
		}
	}
	return false
}

func newSentinel(text string, alsoMatches ...error) error { return &sentinelError{text, alsoMatches} }

// matchingError is err, but also matches sentinel. Its text is that of err, which has all that sentinel's text has.
type matchingError struct{ sentinel, err error }

func withSentinel(sentinel, err error) error { return &matchingError{sentinel, err} }

func (e *matchingError) Error() string { return e.err.Error() }

func (e *matchingError) Unwrap() []error { return []error{e.sentinel, e.err} }

// Errors in the server's reply to one operation. The operation was not executed, unless the error also matches
// ErrOutcomeUnknown.
var (
	// ErrNoNode means that the node, or for a create its parent, does not exist.
	ErrNoNode = newSentinel("node does not exist", zk.ErrNoNode)
	// ErrNodeExists means that the node to be created exists already.
	ErrNodeExists = newSentinel("node already exists", zk.ErrNodeExists)
	// ErrBadVersion means that the node has another version than the one given.
	ErrBadVersion = newSentinel("version conflict", zk.ErrBadVersion)
	// ErrNotEmpty means that the node to be deleted has children.
	ErrNotEmpty = newSentinel("node has children", zk.ErrNotEmpty)
	// ErrNoAuth means that no credential of this client has the permission needed.
	ErrNoAuth = newSentinel("no permission", zk.ErrNoAuth)
	// ErrInvalidACL means that the server does not accept the ACL.
	ErrInvalidACL = newSentinel("invalid ACL", zk.ErrInvalidACL)
	// ErrNoChildrenForEphemerals means that the parent is ephemeral.
	ErrNoChildrenForEphemerals = newSentinel("ephemeral nodes cannot have children", zk.ErrNoChildrenForEphemerals)
	// ErrBadArguments means that the arguments contradict each other, or that the server refuses them.
	ErrBadArguments = newSentinel("bad arguments", zk.ErrBadArguments)
	// ErrQuotaExceeded means that an enforced quota would be exceeded.
	ErrQuotaExceeded = newSentinel("quota exceeded")
	// ErrThrottled means that the server was too busy and refused the operation. The retry policy decides whether to
	// try again.
	ErrThrottled = newSentinel("throttled by the server")
	// ErrUnimplemented means that the server does not support the operation. A server also closes the connection over
	// which it received an unknown operation. To avoid that, the client finds out whether the server supports persistent
	// watches and MultiRead before it sends them.
	ErrUnimplemented = newSentinel("operation not supported by the server")
	// ErrNotReadOnly means that the connected server has no quorum and serves only reads. If the error also matches
	// ErrNotConnected, the client has no connection, because the last server that it tried has no quorum; see
	// WithReadOnly.
	ErrNotReadOnly = newSentinel("the server has no quorum and serves reads only")
	// ErrSessionMoved means that the session is attached to another server by now, and that the server which received the
	// request has refused it. The retry policy decides whether to try again.
	ErrSessionMoved = newSentinel("session moved to another member", zk.ErrSessionMoved)
	// ErrAuthFailed means that the server refused a credential. While every server refuses, operations fail with this
	// error immediately: they are neither executed nor retried. The client continues trying to connect.
	ErrAuthFailed = newSentinel("authentication failed", zk.ErrAuthFailed)
	// ErrOperationTimeout means that the server stopped waiting for the operation; the outcome is unknown. The retry
	// policy decides whether to try again.
	ErrOperationTimeout = newSentinel("operation timed out at the server", ErrOutcomeUnknown)
	// ErrReconfigDisabled means that the ensemble does not allow reconfiguration.
	ErrReconfigDisabled = newSentinel("reconfiguration is disabled", zk.ErrReconfigDisabled)
	// ErrReconfigInProgress means that another reconfiguration is in progress.
	ErrReconfigInProgress = newSentinel("another reconfiguration is in progress")
	// ErrNewConfigNoQuorum means that too few members of the new configuration are connected and up to date for a
	// quorum.
	ErrNewConfigNoQuorum = newSentinel("too few members of the new configuration are connected and up to date " +
		"for a quorum")
)

// Errors of the connection, the session and the client.
var (
	// ErrOutcomeUnknown is matched by every error after which an operation may or may not have been executed.
	// If an operation's error does not match it, the operation had no effect, except for operations of
	// several steps, whose documentation mentions it. The error of a read matches it only if the reply itself is the
	// reason (ErrOperationTimeout, ErrMalformedReply); a read has changed nothing, and can be repeated.
	ErrOutcomeUnknown = newSentinel("the operation may or may not have been executed")
	// ErrConnectionLoss means that the connection was lost after the request was sent and before the reply arrived: the
	// outcome is unknown, unless the request was a read.
	ErrConnectionLoss = newSentinel("connection lost before the reply came: the operation may or may not have been "+
		"executed",
		zk.ErrConnectionClosed, ErrOutcomeUnknown)
	// ErrNotConnected means that there was no connection for the request within the connection timeout. The request was
	// not executed.
	ErrNotConnected = newSentinel("not connected within the connection timeout: the operation was not executed",
		zk.ErrNoServer)
	// ErrSessionLost means that the session of the operation, or of the hold, has ended.
	ErrSessionLost = newSentinel("session lost", zk.ErrSessionExpired)
	// ErrClosed means that the client was closed.
	ErrClosed = newSentinel("client closed", zk.ErrClosing)
	// ErrTooLarge means that the request is larger than [WithMaxFrame] allows, which should be the servers' limit
	// (jute.maxbuffer, 1 MiB unless configured). Then it was not sent. If the error also matches ErrOutcomeUnknown, the
	// request was sent, and the server closed the connection, as servers do at a request above their limit; the request
	// is not retried.
	ErrTooLarge = newSentinel("request larger than the server's packet limit: it was not sent")
	// ErrReplyTooLarge means that the reply is larger than [WithMaxReply] allows: request less, or raise the limit.
	// The connection stays open, and the request is not retried. A write may have been executed; then the error also
	// matches ErrOutcomeUnknown.
	ErrReplyTooLarge = newSentinel("answer larger than the client allows")
	// ErrInvalidPath means that no node can have this path. The message has the reason.
	ErrInvalidPath = newSentinel("invalid path")
	// ErrMalformedReply means that a reply could not be decoded. The client also closes a connection over which it
	// received a message that no server sends: a reply without a request, an event for an invalid path, a count
	// beyond the frame. The reason for that loss ([StateReport].Err, [Health].Trouble) matches this error, too.
	ErrMalformedReply = newSentinel("malformed reply", ErrOutcomeUnknown)
	// ErrNilContext means that a nil context was passed. For a context without an end pass context.Background().
	ErrNilContext = newSentinel("nil context: pass context.Background() for a context that never ends")
	// ErrNoClient means that the client is nil or the zero Client, or that a builder, a recipe or a cache was not made
	// with a client. Every function that can return an error then returns this error immediately; the others do nothing
	// and return zero values. The methods of a nil or zero recipe, lock, lease or term may panic instead, since such a
	// value is a mistake in the program.
	ErrNoClient = newSentinel("the client is nil or the zero Client: make a client with framework.New, and "+
		"builders and recipes with that client", ErrBadArguments)
	// ErrCleanupFull means that too many clean-ups are waiting for a connection, so this clean-up was dropped. It is
	// joined with the error of a guaranteed delete or a protected create, whose node may therefore stay.
	ErrCleanupFull = newSentinel("too many clean-ups are pending: the client will not try again to delete this " +
		"node")
)

// Reasons why a hold, or a watch, has ended.
var (
	// ErrSuspended means that the connection was lost. It ends holds whose loss policy is SuspendedIsLoss.
	ErrSuspended = newSentinel("connection suspended")
	// ErrNodeDeleted means that the node of the hold was deleted, and not by its holder.
	ErrNodeDeleted = newSentinel("node deleted")
	// ErrNotHeld means that the Guard of a lock, lease, term or item has refused a transaction: its node does not exist.
	// The error matches ErrNoNode as well, which alone is about the node of another operation.
	ErrNotHeld = newSentinel("not held")
	// ErrReleased means that the holder has released the hold.
	ErrReleased = newSentinel("released")
)

// OpError is the type of every operation's error: it has the operation, its path and the reason. Use errors.Is to find
// the reason.
type OpError struct {
	// Op is the operation: "create", "delete", "exists", "getData", "transaction", …
	Op string
	// Path is the path as the caller gave it, without namespace and chroot.
	Path string
	// Err is the reason.
	Err error
}

// Error returns a printable text. Unprintable characters, in names chosen by other clients or in a server's text, are
// escaped as in Go's string literals. Path itself is not changed.
func (e *OpError) Error() string {
	if e.Path == "" {
		return e.Op + ": " + plain.Lines(e.Err.Error())
	}
	return e.Op + " " + plain.Text(e.Path) + ": " + plain.Lines(e.Err.Error())
}

func (e *OpError) Unwrap() error { return e.Err }

// wrapOpError wraps err in an OpError, unless it is one already.
func wrapOpError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*OpError); ok {
		return err
	}
	return &OpError{op, path, err}
}

// codeErrors has the exported error of each code that a server may send in a reply.
var codeErrors = map[int32]error{
	jute.CodeNoNode:                   ErrNoNode,
	jute.CodeNodeExists:               ErrNodeExists,
	jute.CodeBadVersion:               ErrBadVersion,
	jute.CodeNotEmpty:                 ErrNotEmpty,
	jute.CodeNoAuth:                   ErrNoAuth,
	jute.CodeInvalidACL:               ErrInvalidACL,
	jute.CodeNoChildrenForEphemerals:  ErrNoChildrenForEphemerals,
	jute.CodeBadArguments:             ErrBadArguments,
	jute.CodeMarshallingError:         ErrBadArguments,
	jute.CodeQuotaExceeded:            ErrQuotaExceeded,
	jute.CodeThrottledOp:              ErrThrottled,
	jute.CodeUnimplemented:            ErrUnimplemented,
	jute.CodeNotReadOnly:              ErrNotReadOnly,
	jute.CodeSessionMoved:             ErrSessionMoved,
	jute.CodeAuthFailed:               ErrAuthFailed,
	jute.CodeSessionClosedRequireSASL: ErrAuthFailed,
	jute.CodeReconfigDisabled:         ErrReconfigDisabled,
	jute.CodeReconfigInProgress:       ErrReconfigInProgress,
	jute.CodeNewConfigNoQuorum:        ErrNewConfigNoQuorum,
	jute.CodeOperationTimeout:         ErrOperationTimeout,
	jute.CodeRequestTimeout:           ErrOperationTimeout,
	jute.CodeConnectionLoss:           ErrConnectionLoss,
	jute.CodeSessionExpired:           ErrSessionLost,
	jute.CodeUnknownSession:           ErrSessionLost,
}

func codeError(code int32) error {
	if code == jute.CodeOK {
		return nil
	}
	if err, ok := codeErrors[code]; ok {
		return err
	}
	return errors.New("the server reports: " + jute.CodeName(code))
}

// errReadLost is the ErrConnectionLoss of a read, which does not match ErrOutcomeUnknown.
var errReadLost = newSentinel("connection lost before the reply came", ErrConnectionLoss, zk.ErrConnectionClosed)

// errCredentialsRefused means that every server refuses the client's credentials, so that waiting for a connection is
// useless.
var errCredentialsRefused = newSentinel("no server accepts the client's credentials: the operation was not executed",
	ErrAuthFailed, ErrNotConnected)

// replyError returns the error of the reply to a write; nil for success.
func replyError(r wire.Reply) error { return replyErrorWith(r, ErrConnectionLoss) }

// readReplyError is replyError for a read.
func readReplyError(r wire.Reply) error { return replyErrorWith(r, errReadLost) }

// replyErrorWith is replyError. lost is the error of a request that was sent and whose reply was lost.
func replyErrorWith(r wire.Reply, lost error) error {
	if r.Err == nil {
		return codeError(r.Code)
	}
	sent, cause := errors.Is(r.Err, wire.ErrConnectionLost), plain.Error(r.Err)
	var why error
	switch {
	case errors.Is(r.Err, wire.ErrTooLarge):
		return withSentinel(ErrTooLarge, fmt.Errorf("%w; split the request, or raise jute.maxbuffer at the servers "+
			"and WithMaxFrame here", r.Err))
	case errors.Is(r.Err, wire.ErrReplyTooLarge):
		err := withSentinel(ErrReplyTooLarge, fmt.Errorf("%w; ask for less, or raise WithMaxReply", r.Err))
		if errors.Is(lost, ErrOutcomeUnknown) {
			err = fmt.Errorf("%w: %w", err, ErrOutcomeUnknown)
		}
		return err
	case errors.Is(r.Err, wire.ErrClosed):
		why = ErrClosed
	case errors.Is(r.Err, wire.ErrSessionLost):
		why = ErrSessionLost
	case errors.Is(r.Err, wire.ErrAuthFailed) && errors.Is(r.Err, wire.ErrNotSent):
		return fmt.Errorf("%w: %w", errCredentialsRefused, cause)
	case errors.Is(r.Err, wire.ErrAuthFailed):
		return fmt.Errorf("%w: %w", ErrAuthFailed, lost)
	case sent && r.Suspect > 0:
		return &cutOffError{r.Suspect, r.Suspect > defaultMaxFrame}
	case sent:
		return lost
	case errors.Is(r.Err, wire.ErrNoOperation):
		return cause
	case errors.Is(r.Err, wire.ErrNotSent):
		return ErrNotConnected
	default:
		return fmt.Errorf("%w: %w", lost, cause)
	}
	if sent {
		return fmt.Errorf("%w: %w", why, lost)
	}
	return why
}

// unsentError returns the error of an operation whose context has ended before a request was sent.
func unsentError(ctx context.Context) error {
	return fmt.Errorf("%w: the operation was not executed", flow.Ended(ctx))
}

// unansweredError is unsentError for a request that has been sent: the outcome of a write is unknown.
func unansweredError(ctx context.Context, write bool) error {
	if write {
		return fmt.Errorf("gave up waiting for the reply: %w: %w", flow.Ended(ctx), ErrOutcomeUnknown)
	}
	return fmt.Errorf("gave up waiting for the reply: %w", flow.Ended(ctx))
}

// checkContext returns an error if ctx is nil or has ended, so that no operation can begin.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if ctx.Err() != nil {
		return unsentError(ctx)
	}
	return nil
}

// missingParentError adds the parent of path to err, the ErrNoNode of a create.
func missingParentError(path string, err error) error {
	if path == "/" {
		return err
	}
	return fmt.Errorf("the parent %s: %w", plain.Text(zkpath.Parent(path)), err)
}

// invalidPathError returns an error of package zkpath as ErrInvalidPath.
func invalidPathError(err error) error {
	var fault *zkpath.Error
	if errors.As(err, &fault) {
		return fmt.Errorf("%w %q: %s", ErrInvalidPath, fault.Path, fault.Reason)
	}
	return err
}

func badArguments(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadArguments, fmt.Sprintf(format, args...))
}

// ErrInvalidOption means that an option of [New], or an argument of a recipe, has a value that cannot work. The message
// has the remedy.
var ErrInvalidOption = newSentinel("invalid option")

func invalidOption(option, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrInvalidOption, option, fmt.Sprintf(format, args...))
}

// defaultMaxFrame is the servers' jute.maxbuffer unless configured.
const defaultMaxFrame = 0xfffff

// cutOffError means that the server closed the connection while a large request was in flight. A server refuses a
// request above its limit in this way, but it may have had other reasons. So the request is retried once. The error is
// final, and matches ErrTooLarge, if the same happens again, or if the request is larger than servers accept by default.
type cutOffError struct {
	size  int // of the request, in bytes
	final bool
}

// errCutOff is matched by a final cutOffError only, unlike ErrTooLarge.
var errCutOff = newSentinel("cut off")

func (e *cutOffError) Error() string {
	if e.final {
		return fmt.Sprintf("the server closed the connection on this request of %d bytes: most likely the "+
			"request is larger than the server's jute.maxbuffer (%d unless configured), to which "+
			"WithMaxFrame should be equal; it is unknown whether the request was executed",
			e.size, defaultMaxFrame)
	}
	return fmt.Sprintf("%v; the request has %d bytes, which may be more than the server's jute.maxbuffer",
		ErrConnectionLoss, e.size)
}

func (e *cutOffError) Is(target error) bool {
	return e.final && (target == ErrTooLarge || target == errCutOff)
}

func (e *cutOffError) Unwrap() error { return ErrConnectionLoss }

// Retryable reports whether another try may succeed, because err concerns the connection or the server's load and not
// the operation: ErrConnectionLoss, ErrNotConnected, ErrSessionMoved, ErrOperationTimeout, ErrThrottled. After some of
// these the operation may have been executed (ErrOutcomeUnknown): the caller has to decide whether a second execution
// does harm.
func Retryable(err error) bool {
	return !matchesAny(err, errCredentialsRefused, errCutOff) &&
		matchesAny(err, ErrConnectionLoss, ErrNotConnected, ErrSessionMoved, ErrOperationTimeout, ErrThrottled)
}

// isUnfinished reports whether an operation has ended with err although no server has refused it for good: it may have
// been executed, or another try may succeed.
func isUnfinished(err error) bool {
	return err != nil && !errors.Is(err, errAmbiguous) &&
		(Retryable(err) || matchesAny(err, ErrSessionLost, ErrClosed, ErrOutcomeUnknown, ErrNotReadOnly,
			errCredentialsRefused, apart.ErrNoReturn, context.Canceled, context.DeadlineExceeded))
}

func matchesAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// ambiguousError is the error of an operation in this sequence:
//
//  1. The reply to its request is lost: the outcome is unknown.
//  2. The server refuses the repeated request, which may be because the first one was executed: a create is
//     refused with ErrNodeExists, for example.
//
// It matches ErrConnectionLoss, and so ErrOutcomeUnknown, but not the refusal.
type ambiguousError struct {
	sentinel error // the exported error that the refusal matches
	refusal  error
}

// errAmbiguous is matched by every ambiguousError.
var errAmbiguous = newSentinel("ambiguous")

func (e *ambiguousError) Error() string {
	return fmt.Sprintf("connection lost before the reply came, and the repeated request failed with %q: "+
		"perhaps the first one was executed", e.sentinel)
}

func (e *ambiguousError) Is(target error) bool { return target == errAmbiguous }

func (e *ambiguousError) Unwrap() error { return ErrConnectionLoss }

// repeatRefusal returns the refusal of an ambiguousError, or nil for other errors.
func repeatRefusal(err error) error {
	var a *ambiguousError
	if errors.As(err, &a) {
		return a.refusal
	}
	return nil
}
