// Package mark lets a recipe find out whether a write was executed if its reply was lost.
package mark

import (
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Mark is an ephemeral node that belongs to one writer. Each write is a transaction whose first operation is a setData
// of the mark, with the version that the mark has had since the last write. So a repeat of a write is refused because
// of the mark's version if, and only if, an earlier try was executed, however often other clients have written since.
//
// The recipe creates the mark before the first write, with Create. It must not create it in the transaction of a write:
// if another client deleted the mark, a repeat of the write would create the mark again and be executed a second time.
//
// Not safe for concurrent use.
type Mark struct {
	Session *framework.Session // that the node belongs to
	Path    string
	Created bool // its create has succeeded
	// Forbidden means that the server refuses a mark here, for lack of a permission: then writes are sent without it,
	// and after a lost reply the outcome may stay unknown.
	Forbidden bool
	Used      time.Time // when the mark was last written

	version      int32 // of the node, after the last write
	maybeCreated bool  // a create was begun, so Forget deletes the node
}

// New returns a mark with a unique name in a directory. Nothing is sent.
func New(session *framework.Session, dir string) *Mark {
	path := zkpath.Join(dir, zkpath.Protect(zkpath.NewGUID(), "mark"))
	return &Mark{Session: session, Path: path, Used: time.Now()}
}

// Serves reports whether m can be used in a session: it belongs to that session, and its version is not near the
// largest number. For nil it returns false.
func (m *Mark) Serves(session *framework.Session) bool {
	return m != nil && m.Session.Epoch() == session.Epoch() && m.version < 1<<30
}

// Create begins the mark's create; the data must be empty. After ErrNodeExists the mark exists, by an earlier try.
func (m *Mark) Create() framework.CreateBuilder {
	m.maybeCreated = true
	return m.Session.Client().Create().WithMode(framework.Ephemeral)
}

// Write returns the transaction for a write: its operations, after the change of the mark.
func (m *Mark) Write(ops ...framework.TransactionOp) []framework.TransactionOp {
	if m.Forbidden {
		return ops
	}
	to := m.Session.Client().TransactionOp()
	change := to.SetData().WithVersion(m.version).ForPath(m.Path, []byte{})
	return append([]framework.TransactionOp{change}, ops...)
}

// Written records that a write was executed.
func (m *Mark) Written() {
	m.Used = time.Now()
	m.version++
}

// Forget ends the use of the mark: if the node may exist, the client deletes it in the background, and repeats that
// until it has succeeded. m may be nil.
func (m *Mark) Forget() {
	if m != nil && m.maybeCreated && m.Session.Context().Err() == nil {
		line.QueueDelete(m.Session.Client(), m.Path)
	}
}

// NotExecuted returns the error of a write that was certainly not executed, because an operation that it needs, such as
// the create of a mark, has failed with err. The outcome of that operation may be unknown, but not that of the write:
// the error does not match ErrOutcomeUnknown, and matches ErrNotConnected if err is Retryable.
func NotExecuted(err error) error {
	if !errors.Is(err, framework.ErrOutcomeUnknown) {
		return err
	}
	return &notExecutedError{err}
}

type notExecutedError struct{ err error }

func (e *notExecutedError) Error() string {
	return "not executed, since what it needs could not be made: " + e.err.Error()
}

// Is decides about each target of errors.Is, since there is no Unwrap.
func (e *notExecutedError) Is(target error) bool {
	switch target {
	case framework.ErrOutcomeUnknown, framework.ErrConnectionLoss, framework.ErrOperationTimeout:
		return false
	case framework.ErrNotConnected:
		return framework.Retryable(e.err)
	}
	return errors.Is(e.err, target)
}

// Outcome is the outcome of a write, over all its tries, as far as the error of the last transaction shows it.
type Outcome int8

const (
	// Done means that the write was executed, by this try or by an earlier one whose reply was lost.
	Done Outcome = iota
	// NoRefusal means that the error is no refusal by the servers: the write may have been executed if the error of
	// this or an earlier try matches ErrOutcomeUnknown.
	NoRefusal
	// Refused means that the servers refused one of the write's own operations. The mark, if there is one, had its
	// version of before: no try was executed, and none ever will be.
	Refused
	// MarkChanged means that another client has changed or deleted the mark: this try was not executed.
	MarkChanged
	// MarkRefused means that the servers refuse to change the mark, for lack of a permission for example.
	MarkRefused
)

// OutcomeOf returns the outcome shown by the error of a transaction that Write has made. unknown means that an earlier
// try with this mark may have been executed.
func (m *Mark) OutcomeOf(err error, unknown bool) Outcome {
	var refused *framework.TransactionError
	switch {
	case err == nil:
		return Done
	case !errors.As(err, &refused):
		return NoRefusal
	case m.Forbidden || refused.Index > 0:
		return Refused
	case unknown && errors.Is(err, framework.ErrBadVersion):
		return Done
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrBadVersion):
		return MarkChanged
	}
	return MarkRefused
}
