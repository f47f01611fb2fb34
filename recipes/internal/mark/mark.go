// Package mark finds out whether a write was executed whose reply was lost.
package mark

import (
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Mark is an ephemeral node. Every write is one transaction that first changes the mark, with the version after the
// last write. So the repeat of a write is refused because of the mark if, and only if, the first try was executed,
// however often others have written since.
//
// The mark is created before the first write. A write that also created it could be repeated, and be executed again,
// after another client had deleted the mark. Its owner creates it, with Create.
//
// One goroutine at a time.
type Mark struct {
	Session *framework.Session // whose node it is
	Path    string
	Made    bool // it was there
	// None means that the server refuses a mark here, for lack of a permission: then writes go without it, and after a
	// lost reply the outcome may stay unknown.
	None bool
	Used time.Time // when it was last written

	lastVersion  int32 // after the last write
	maybeCreated bool  // there may be something to delete
}

// New returns a mark with a unique name in a directory. Nothing is sent.
func New(session *framework.Session, dir string) *Mark {
	path := zkpath.Join(dir, zkpath.Protect(zkpath.NewGUID(), "mark"))
	return &Mark{Session: session, Path: path, Used: time.Now()}
}

// Serves reports whether it can be used in a session. It is false for a mark whose versions are used up, and for nil.
func (m *Mark) Serves(session *framework.Session) bool {
	return m != nil && m.Session.Epoch() == session.Epoch() && m.lastVersion < 1<<30
}

// Create is for making it, with empty data. A node that exists already was made by an earlier try.
func (m *Mark) Create() framework.CreateBuilder {
	m.maybeCreated = true
	return m.Session.Client().Create().WithMode(framework.Ephemeral)
}

// Write returns the transaction for a write: its operations, after the change of the mark.
func (m *Mark) Write(ops ...framework.TransactionOp) []framework.TransactionOp {
	if m.None {
		return ops
	}
	to := m.Session.Client().TransactionOp()
	change := to.SetData().WithVersion(m.lastVersion).ForPath(m.Path, []byte{})
	return append([]framework.TransactionOp{change}, ops...)
}

// Written records that a write was executed.
func (m *Mark) Written() {
	m.Used = time.Now()
	m.lastVersion++
}

// Forget ends the use of the mark: if it may exist, the client deletes it, and continues until that is done. m may be
// nil.
func (m *Mark) Forget() {
	if m != nil && m.maybeCreated && m.Session.Context().Err() == nil {
		line.QueueDelete(m.Session.Client(), m.Path)
	}
}

// NotSent returns the error of a write that was never sent, or was refused at each try, because of err, the failure of
// an operation that the write needs. It does not match ErrOutcomeUnknown, though err may. Then it matches
// ErrNotConnected instead of ErrConnectionLoss.
func NotSent(err error) error {
	if !errors.Is(err, framework.ErrOutcomeUnknown) {
		return err
	}
	return &notSentError{err}
}

type notSentError struct{ err error }

func (e *notSentError) Error() string {
	return "not executed, since what it needs could not be made: " + e.err.Error()
}

// Is is for errors.Is, which does not look into the error.
func (e *notSentError) Is(target error) bool {
	switch target {
	case framework.ErrOutcomeUnknown, framework.ErrConnectionLoss, framework.ErrOperationTimeout:
		return false
	case framework.ErrNotConnected:
		return framework.Retryable(e.err)
	}
	return errors.Is(e.err, target)
}

// Answer is the conclusion from the end of a transaction about a write and its earlier tries.
type Answer int8

const (
	// Done means that the write was executed, by this try or by an earlier one whose reply was lost.
	Done Answer = iota
	// Open means that the servers have not refused: the error shows whether the write may have been executed.
	Open
	// Refused means that the write's operations were refused. The mark, if there is one, was as before: no try was
	// executed, and none ever will be.
	Refused
	// Gone means that another client has changed or deleted the mark: this try was not executed.
	Gone
	// Untaken means that the servers refuse to change the mark, for lack of a permission for example.
	Untaken
)

// Meaning reads the error of a transaction that Write has made. unknown means that an earlier try with this mark may
// have been executed.
func (m *Mark) Meaning(err error, unknown bool) Answer {
	var refused *framework.TransactionError
	switch {
	case err == nil:
		return Done
	case !errors.As(err, &refused):
		return Open
	case m.None || refused.Index > 0:
		return Refused
	case unknown && errors.Is(err, framework.ErrBadVersion):
		return Done
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrBadVersion):
		return Gone
	}
	return Untaken
}
