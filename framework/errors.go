package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// sentinel is one named error. Where go-zookeeper has a value of the same meaning, errors.Is finds that
// too, so that code written for go-zookeeper keeps its checks.
type sentinel struct {
	text string
	also []error
}

func (s *sentinel) Error() string { return s.text }

func (s *sentinel) Is(target error) bool {
	for _, e := range s.also {
		if e == target {
			return true
		}
	}
	return false
}

func named(text string, also ...error) error { return &sentinel{text, also} }

// knownError is an error that has a name, and says so already.
type knownError struct{ name, err error }

func known(name, err error) error { return &knownError{name, err} }

func (e *knownError) Error() string   { return e.err.Error() }
func (e *knownError) Unwrap() []error { return []error{e.name, e.err} }

// The server's answers to one operation: it was not executed.
var (
	// ErrNoNode says that the node (or, for a create, its parent) does not exist.
	ErrNoNode = named("node does not exist", zk.ErrNoNode)
	// ErrNodeExists says that a node to be created is there already.
	ErrNodeExists = named("node already exists", zk.ErrNodeExists)
	// ErrBadVersion says that the node has another version than the one given.
	ErrBadVersion = named("version conflict", zk.ErrBadVersion)
	// ErrNotEmpty says that a node to be deleted has children.
	ErrNotEmpty = named("node has children", zk.ErrNotEmpty)
	// ErrNoAuth says that no credential of this client has the permission needed.
	ErrNoAuth = named("no permission", zk.ErrNoAuth)
	// ErrInvalidACL says that the server does not accept the ACL.
	ErrInvalidACL = named("invalid ACL", zk.ErrInvalidACL)
	// ErrNoChildrenForEphemerals says that the parent is ephemeral.
	ErrNoChildrenForEphemerals = named("ephemeral nodes may not have children", zk.ErrNoChildrenForEphemerals)
	// ErrBadArguments says that the arguments contradict each other, or that the server refuses them.
	ErrBadArguments = named("bad arguments", zk.ErrBadArguments)
	// ErrQuotaExceeded says that an enforced quota would be exceeded.
	ErrQuotaExceeded = named("quota exceeded")
	// ErrThrottled says that the server was too busy and refused the operation. It is repeated by the retry
	// policy.
	ErrThrottled = named("throttled by the server")
	// ErrUnimplemented says that the server does not know the operation; it closes the connection too.
	ErrUnimplemented = named("operation not supported by the server")
	// ErrNotReadOnly says that the connected member has no quorum and serves reads only. Together with
	// ErrNotConnected: the last member asked has none, and opens no sessions for readers either, see
	// WithReadOnly.
	ErrNotReadOnly = named("the member serves reads only")
	// ErrSessionMoved says that the session is attached to another member now. It is repeated by the retry
	// policy.
	ErrSessionMoved = named("session moved to another member", zk.ErrSessionMoved)
	// ErrAuthFailed says that the server refused a credential. While every server does, operations fail with
	// it at once, not executed, and the retry policy is not asked; the client goes on asking for a connection
	// all the same.
	ErrAuthFailed = named("authentication failed", zk.ErrAuthFailed)
	// ErrOperationTimeout says that the server gave up on the operation. It is repeated by the retry policy.
	ErrOperationTimeout = named("operation timed out at the server", ErrOutcomeUnknown)
	// ErrReconfigDisabled says that the ensemble does not allow reconfiguration.
	ErrReconfigDisabled = named("reconfiguration is disabled", zk.ErrReconfigDisabled)
	// ErrReconfigInProgress says that another reconfiguration is under way.
	ErrReconfigInProgress = named("another reconfiguration is in progress")
	// ErrNewConfigNoQuorum says that too few members of the new configuration are connected and up to date: it
	// would not work.
	ErrNewConfigNoQuorum = named("no quorum of the new configuration is connected and up to date")
)

// What happens between the client and the server.
var (
	// ErrOutcomeUnknown is found in every error of an operation that may or may not have been executed. Where
	// it is not found, the operation had no effect. (Exceptions are operations of several steps, whose
	// documentation says so.) A read that was given up, or whose reply was lost, has had none, and comes
	// without it.
	ErrOutcomeUnknown = named("the operation may or may not have been executed")
	// ErrConnectionLoss says that the connection went away after the request was sent and before its reply
	// came: the outcome is unknown, unless it was a read.
	ErrConnectionLoss = named("connection lost before the reply came: the operation may or may not have been executed",
		zk.ErrConnectionClosed, ErrOutcomeUnknown)
	// ErrNotConnected says that no connection could carry the request within the connection timeout. It was
	// not executed.
	ErrNotConnected = named("not connected within the connection timeout: the operation was not executed", zk.ErrNoServer)
	// ErrSessionLost says that the session has ended, or, for operations of a session's view, that another
	// session has begun.
	ErrSessionLost = named("session lost", zk.ErrSessionExpired)
	// ErrClosed says that the client was closed.
	ErrClosed = named("client closed", zk.ErrClosing)
	// ErrTooLarge says that the request is larger than the server's packet limit (jute.maxbuffer, 1 MiB unless
	// configured). It was not sent: see [WithMaxFrame]. If the error matches ErrOutcomeUnknown, too, it was,
	// and the server has closed the connection on it, which is how it refuses a request that is larger than
	// its limit; the retry policy is not asked then.
	ErrTooLarge = named("request larger than the server's packet limit: it was not sent")
	// ErrReplyTooLarge says that the answer is larger than [WithMaxReply] allows: ask for less, or allow more.
	// The connection goes on, and the retry policy is not asked. A write may have been executed, and then
	// matches ErrOutcomeUnknown, too.
	ErrReplyTooLarge = named("answer larger than the client allows")
	// ErrInvalidPath says that the path cannot be that of a node; the message says why.
	ErrInvalidPath = named("invalid path")
	// ErrMalformedReply says that an answer could not be decoded. It is also found in why a connection was
	// lost (a state change's Err, [Health].Trouble) over what no server sends that speaks the protocol: an
	// answer to nothing, an event for what is no path, a count beyond the frame.
	ErrMalformedReply = named("malformed reply", ErrOutcomeUnknown)
	// ErrNilContext says that a nil context was passed; context.Background() is the one without an end.
	ErrNilContext = named("nil context: pass context.Background() for one without an end")
	// ErrNoClient says that the client is nil or the zero Client, or that a builder, a recipe or the like is
	// the zero value of its type, and so has none. Everything that can return an error returns it then, at
	// once; the rest does nothing and returns zero values.
	ErrNoClient = named("the client is nil, or was not made: make one with framework.New, and everything else from it", ErrBadArguments)
	// ErrCleanupFull says that so many clean-ups are waiting for a connection that no more are taken. It comes
	// joined with the error of a guaranteed delete or a protected create, which then may leave its node
	// behind.
	ErrCleanupFull = named("too many clean-ups pending: this one will not be repeated")
)

// Why a hold, or a watch, has ended.
var (
	// ErrSuspended says that the connection was lost, for holds with the loss policy SuspendedIsLoss.
	ErrSuspended = named("connection suspended")
	// ErrNodeDeleted says that the node that stands for the hold was deleted by somebody else.
	ErrNodeDeleted = named("node deleted")
	// ErrReleased says that the holder itself gave it back.
	ErrReleased = named("released")
)

// OpError is the error of every operation: which one, on which path (as the caller wrote it), and why. Find
// the reason with errors.Is.
type OpError struct {
	// Op is the operation as it is called here: "create", "delete", "exists", "getData", "transaction", …
	Op string
	// Path is the path as the caller gave it, without namespace and chroot.
	Path string
	Err  error
}

// Error is printable: what is not, in names that others have chosen or in what a server says, is escaped,
// as in Go's string literals. Path is as it is.
func (e *OpError) Error() string {
	if e.Path == "" {
		return e.Op + ": " + plain.Lines(e.Err.Error())
	}
	return e.Op + " " + plain.Text(e.Path) + ": " + plain.Lines(e.Err.Error())
}

func (e *OpError) Unwrap() error { return e.Err }

// opError wraps err once.
func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*OpError); ok {
		return err
	}
	return &OpError{op, path, err}
}

// ServerError is an answer of the server that has no name here.
type ServerError struct{ Code int32 }

func (e *ServerError) Error() string { return "the server says " + jute.CodeName(e.Code) }

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

// codeError turns the code of a reply into an error; nil for success.
func codeError(code int32) error {
	if code == jute.CodeOK {
		return nil
	}
	if err, ok := codeErrors[code]; ok {
		return err
	}
	return &ServerError{code}
}

// errReadLost is ErrConnectionLoss for what changes nothing.
var errReadLost = named("connection lost before the reply came", ErrConnectionLoss, zk.ErrConnectionClosed)

// errUnwelcome says that there is no point in waiting for a connection.
var errUnwelcome = named("no server accepts the client's credentials: the operation was not executed", ErrAuthFailed, ErrNotConnected)

// replyError turns the reply to a write into an error; nil for success.
func replyError(r wire.Reply) error { return replyErrorWith(r, ErrConnectionLoss) }

// readError is replyError for a read.
func readError(r wire.Reply) error { return replyErrorWith(r, errReadLost) }

func replyErrorWith(r wire.Reply, loss error) error {
	if r.Err == nil {
		return codeError(r.Code)
	}
	sent, said := errors.Is(r.Err, wire.ErrConnectionLost), plain.Error(r.Err)
	var why error
	switch {
	case errors.Is(r.Err, wire.ErrTooLarge):
		return known(ErrTooLarge, fmt.Errorf("%w; split it, or set jute.maxbuffer at the servers and WithMaxFrame here", r.Err))
	case errors.Is(r.Err, wire.ErrReplyTooLarge):
		err := known(ErrReplyTooLarge, fmt.Errorf("%w; ask for less, or allow more by WithMaxReply", r.Err))
		if errors.Is(loss, ErrOutcomeUnknown) {
			err = fmt.Errorf("%w: %w", err, ErrOutcomeUnknown)
		}
		return err
	case errors.Is(r.Err, wire.ErrClosed):
		why = ErrClosed
	case errors.Is(r.Err, wire.ErrSessionLost):
		why = ErrSessionLost
	case errors.Is(r.Err, wire.ErrAuthFailed) && errors.Is(r.Err, wire.ErrNotSent):
		return fmt.Errorf("%w: %w", errUnwelcome, said)
	case errors.Is(r.Err, wire.ErrAuthFailed):
		return fmt.Errorf("%w: %w", ErrAuthFailed, loss)
	case sent && r.Suspect > 0:
		return &cutOffError{r.Suspect, r.Suspect > defaultMaxFrame}
	case sent:
		return loss
	case errors.Is(r.Err, wire.ErrNotSent):
		return ErrNotConnected
	default:
		return fmt.Errorf("%w: %w", loss, said)
	}
	if sent {
		return fmt.Errorf("%w: %w", why, loss)
	}
	return why
}

// leftBy returns the error of an operation whose context has ended; unknown says that the request had been
// sent.
func leftBy(ctx context.Context, unknown bool) error {
	if unknown {
		return leftWaitingFor(ctx, true)
	}
	return fmt.Errorf("%w: the operation was not executed", flow.Ended(ctx))
}

// leftWaitingFor is leftBy for a request that has been sent.
func leftWaitingFor(ctx context.Context, write bool) error {
	if write {
		return fmt.Errorf("%w before the reply came: %w", flow.Ended(ctx), ErrOutcomeUnknown)
	}
	return fmt.Errorf("%w before the reply came", flow.Ended(ctx))
}

// checkContext refuses contexts that cannot carry an operation.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if ctx.Err() != nil {
		return leftBy(ctx, false)
	}
	return nil
}

// missingParent says which node does not exist when it is not the one of the operation.
func missingParent(path string, err error) error {
	if path == "/" {
		return err
	}
	return fmt.Errorf("the parent %s: %w", plain.Text(zkpath.Parent(path)), err)
}

// pathError gives a path's fault its name.
func pathError(err error) error {
	var fault *zkpath.Error
	if errors.As(err, &fault) {
		return fmt.Errorf("%w %q: %s", ErrInvalidPath, fault.Path, fault.Reason)
	}
	return err
}

// badArguments is a mistake in how an operation was put together.
func badArguments(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadArguments, fmt.Sprintf(format, args...))
}
