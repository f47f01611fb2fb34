package leader

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Errors of this package, and those that tell how a term ended. Use errors.Is.
var (
	// ErrReleased is the cause of a term that was given back: by Resign, by leaving the election, or because the
	// function returned.
	ErrReleased = framework.ErrReleased
	// These are the causes when the connection is lost, with the policy framework.SuspendedIsLoss; when the
	// session is lost, or may have expired; and when somebody else has deleted the leader's node.
	ErrSuspended   = framework.ErrSuspended
	ErrSessionLost = framework.ErrSessionLost
	ErrNodeDeleted = framework.ErrNodeDeleted
	// ErrSequenceExhausted says that the sequence numbers of the directory are used up: delete it while nobody
	// uses it.
	ErrSequenceExhausted = queue.ErrSequenceExhausted
	// ErrNotReleased is in the error of a [Selector] whose function has done its work, and only giving up the
	// place was refused (ErrNoAuth): it stays first in line until the session ends.
	ErrNotReleased = queue.ErrNotReleased
	// ErrSelfWait refuses to run a [Selector] with the context of something that would have to be released
	// first: the term of another Selector of the same election, or a mutex at its path.
	ErrSelfWait = queue.ErrSelfWait
	// ErrLeft is what a [Latch] says that has left the election.
	ErrLeft = errors.New("the latch has left the election: make a new one to join again")
	// ErrRunning says that the [Selector] is running already.
	ErrRunning = errors.New("the selector is running already")
)

// Option changes what [NewLatch] and [NewSelector] make.
type Option func(*config) error

type config struct {
	id       *string
	loss     framework.LossPolicy
	listener *Listener
}

// WithID names the participant, for [Participant] and [Observe]: a host name, or the address at which a
// leader can be reached. It need not be unique. Default: none, that is "" for a latch, and for a selector the
// client's default data, both as in Curator.
func WithID(id string) Option {
	return func(c *config) error {
		if !utf8.ValidString(id) {
			return fmt.Errorf("%w WithID: %q is not UTF-8, and participants in Java could not read it",
				framework.ErrInvalidOption, id)
		}
		c.id = &id
		return nil
	}
}

// WithLossPolicy says whether a term outlives a lost connection. Default [framework.SuspendedIsLoss], as in
// Curator: it ends with the connection (cause ErrSuspended). With [framework.SessionOnly] it lasts as long as
// its session certainly does, which the client's own clock decides, so that the restart of one server ends no
// term.
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(c *config) (err error) {
		c.loss, err = queue.Policy(p)
		return err
	}
}

// WithListener has the functions called at the beginning and end of each term of a [Latch]. Default: none.
func WithListener(l Listener) Option {
	return func(c *config) error {
		if l.OnLeader == nil && l.OnNotLeader == nil {
			return fmt.Errorf("%w WithListener: both functions are nil; leave the option out",
				framework.ErrInvalidOption)
		}
		c.listener = &l
		return nil
	}
}

// configure checks the arguments of a constructor and fills in the waiting line.
func configure(line *queue.Line, client *framework.Client, path, name string, opts []Option) (config, error) {
	c := config{loss: framework.SuspendedIsLoss}
	line.Client, line.Dir, line.Name, line.Order = client, path, name, queue.Order{Names: []string{name}}
	err := queue.Configure(client, path, &c, opts)
	line.Loss = c.loss
	if c.id != nil {
		line.Data = append([]byte{}, *c.id...)
	}
	return c, err
}

func wrap(path, verb string, err error) error { return queue.Wrap("leader", path, verb, err) }
