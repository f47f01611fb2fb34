package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// ErrTaken says that there is nothing to be had at once, and that the caller did not want to wait. It is every recipe's ErrNotAcquired, so that who takes
// several kinds as one need not ask which it was.
var ErrTaken = errors.New("not acquired")

// ErrSequenceExhausted says that the sequence numbers of a directory are used up.
var ErrSequenceExhausted = errors.New("the sequence numbers of the directory are used up: ZooKeeper would hand out ties, and the order would mean " +
	"nothing; when nobody uses the directory, delete it, and the numbers begin again at 0")

// errPlaceLost says that the own node was deleted by somebody else while it stood in line.
var errPlaceLost = fmt.Errorf("while it stood in line: %w", framework.ErrNodeDeleted)

// Line is one kind of contender for one directory: what its nodes are called, and what stands in its way. The fields are set before the
// first use and not changed. Its methods are safe for concurrent use; each call stands in line for itself.
type Line struct {
	Client *framework.Client
	// Recipe is what the hooks are told.
	Recipe string
	// Dir is the directory; made as a container when it is missing.
	Dir string
	// Name is what is in front of the own nodes' numbers; it ends in one of Order.Names.
	Name  string
	Order Order
	// Data is that of the own nodes; nil means what a hook says, or the client's default data.
	Data []byte
	// Loss is the policy of the holds granted.
	Loss framework.LossPolicy
	// Stubborn has it wait also for what the caller itself holds, by its context, which else is entered once more, or refused.
	Stubborn bool
	// Revocable grants hear of who asks for them to be given up. See [Line.Listen].
	Revocable bool
	// StaleTry lets TryAcquire look at what the connected member knows, which may be behind.
	StaleTry bool
	// OnWait, if set, is called with the place in line whenever it becomes known, on the goroutine that waits.
	OnWait func(Position)

	warnedForeign, warnedNumbers atomic.Bool
}

// Position is a place in line.
type Position struct {
	// Node is the own node's name, Predecessor that of the nearest one ahead that has to go first.
	Node, Predecessor string
	// Ahead counts those that have to go first.
	Ahead int
}

// Grant is a granted place. Its node stays until Release, or the end of the session.
type Grant struct {
	Session *framework.Session
	Hold    *framework.Hold
	// Path and Name are the node's; Czxid is the transaction that created it, or, for a grant in the place of another, that one's node.
	Path, Name string
	Czxid      int64
}

// Acquire waits in line until it is the caller's turn or ctx ends. When the session, or the node, is lost meanwhile, it begins again at the
// end of the line, as Curator's retry does. values is where the hold's context has its values from.
//
// Errors: ctx's; ErrSelfWait, at once, or with ctx's if it is Stubborn; ErrSequenceExhausted; what the server says to the create or the list (ErrNoAuth, …); what is wrong with the connection
// (ErrNotConnected, ErrConnectionLoss) when the retry policy has no more for it before the first place in line; ErrClosed;
// ErrTimeoutTooShort. Whatever the error, nothing is left in the directory.
func (l *Line) Acquire(ctx, values context.Context) (*Grant, error) {
	if !l.Stubborn && l.ownAhead(ctx) {
		return nil, ErrSelfWait
	}
	grant, err := l.acquire(ctx, values)
	if err != nil {
		return nil, l.saying(ctx, err)
	}
	return grant, nil
}

func (l *Line) acquire(ctx, values context.Context) (*Grant, error) {
	for stays := (Stays{}); ; {
		session, err := l.session(ctx, stays.n == 0)
		if err != nil {
			return nil, err
		}
		stays.Begin()
		grant, err := l.stay(ctx, values, session, true)
		if err == nil {
			return grant, nil
		}
		if err := stays.Again(ctx, l.Client, l.Dir, err); err != nil {
			return nil, err
		}
	}
}

// TryAcquire is Acquire for who does not want to wait: ErrTaken if somebody is ahead. Its first look writes nothing.
func (l *Line) TryAcquire(ctx, values context.Context) (grant *Grant, err error) {
	err = Try(ctx, l.Client, func(ctx context.Context, session *framework.Session) (err error) {
		if err = l.look(ctx, session); err == nil {
			grant, err = l.stay(ctx, values, session, false)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return grant, nil
}

// Listen makes the Line Revocable.
func (l *Line) Listen() {
	l.Revocable = true
	if l.Data == nil {
		l.Data = []byte{} // as Curator does: the data is the revokers'
	}
}

// Begin tells the hooks that an acquisition begins. It returns the context to go on in, and what to call at its end.
func (l *Line) Begin(ctx context.Context) (context.Context, func(error)) {
	return l.Client.Hooks().Acquire(ctx, framework.Acquisition{Recipe: l.Recipe, Path: l.Dir})
}

// Announce tells the hooks, by what Begin has returned, how an acquisition has ended. What was acquired is nobody's when one of them does not return: then
// giveUp is called.
func Announce(acquired func(error), err error, giveUp func()) {
	told := false
	defer func() {
		if !told && err == nil {
			giveUp()
		}
	}()
	acquired(err)
	told = true
}

// session waits for a session: at first for as long as the retry policy says, and once there was a place in line until ctx ends.
func (l *Line) session(ctx context.Context, first bool) (*framework.Session, error) {
	if first {
		return l.Client.SessionSoon(ctx)
	}
	return l.Client.Session(ctx)
}

// look is the look before the leap: one flight, no write.
func (l *Line) look(ctx context.Context, session *framework.Session) error {
	view := session.Client()
	var synced *framework.Pending[struct{}]
	if !l.StaleTry {
		synced = view.Sync().InBackground().ForPath(ctx, l.Dir)
	}
	listed := view.GetChildren().InBackground().ForPath(ctx, l.Dir)
	if synced != nil {
		if _, err := Result(synced); err != nil {
			return err
		}
	}
	list, err := Result(listed)
	if errors.Is(err, framework.ErrNoNode) {
		return nil // nobody there
	}
	if err != nil {
		return err
	}
	if first := l.Order.Taken(list.Names); first != "" {
		return taken(first)
	}
	return nil
}

func taken(by string) error {
	return fmt.Errorf("%w: somebody else is ahead (%s)", ErrTaken, plain.Text(by))
}

// warn says once what is strange about the directory.
func (l *Line) warn(own string, d Decision) {
	log := l.Client.Logger()
	if d.Foreign != "" && l.warnedForeign.CompareAndSwap(false, true) {
		attrs := []any{slog.String("path", l.Dir), slog.String("child", d.Foreign)}
		if d.ForeignAhead {
			log.Warn("a child of this directory is no contender; it is ignored here, but contenders with Curator for Java wait for it: delete it", attrs...)
		} else {
			log.Warn("a child of this directory is no contender; it is ignored", attrs...)
		}
	}
	if number, ok := l.Order.Number(own); ok && number >= 1<<30 && l.warnedNumbers.CompareAndSwap(false, true) {
		log.Warn("half of the directory's sequence numbers are used up; they begin again when it is deleted while nobody uses it",
			"path", l.Dir, "left", Limit-number)
	}
}

// join is the path of a child.
func (l *Line) join(name string) string { return zkpath.Join(l.Dir, name) }
