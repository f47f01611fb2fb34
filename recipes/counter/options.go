package counter

import (
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Option configures [NewLong] and [NewInteger]. If one is given several times the last counts.
type Option func(*turns) error

// WithLock has an Add that was overtaken twice in a row take the lock at path before it tries again, as Curator's clients
// with the same lock do: under contention each of them gets its turn, in order. The lock is a mutex of package mutex, with
// a directory for itself. Correctness does not depend on it: a write without the lock is detected as before. Default: no
// lock; the processes that use this package wait in a line of their own, which costs less.
//
// Corresponds to Curator's PromotedToLock.
func WithLock(path string) Option {
	return func(t *turns) error {
		if err := line.CheckArguments(t.client, path); err != nil {
			return err
		}
		t.lock = &line.Line{Client: t.client, Recipe: "counter", Dir: path, Name: lockName,
			Order: line.Order{Names: []string{lockName}}, Loss: framework.SessionOnly}
		return nil
	}
}

// lockName is package mutex's.
const lockName = "lock-"
