package recipetest

import (
	"context"
	"testing"
	"time"
)

// Meddler is a context of a user's own type: each of its methods first calls Meddle, which may use the recipe that called
// the method.
type Meddler struct {
	context.Context
	Meddle func()
}

// Deadline implements [context.Context].
func (m Meddler) Deadline() (time.Time, bool) {
	m.Meddle()
	return m.Context.Deadline()
}

// Done implements [context.Context].
func (m Meddler) Done() <-chan struct{} {
	m.Meddle()
	return m.Context.Done()
}

// Err implements [context.Context].
func (m Meddler) Err() error {
	m.Meddle()
	return m.Context.Err()
}

// Value implements [context.Context].
func (m Meddler) Value(key any) any {
	m.Meddle()
	return m.Context.Value(key)
}

// NoDeadlock ends the process if the test takes more than half a minute of real time. Call it outside the bubble: the
// clock of the bubble stops while a goroutine in it waits for a mutex.
func NoDeadlock(t *testing.T) {
	t.Helper()
	stuck := time.AfterFunc(30*time.Second, func() { panic(t.Name() + ": a goroutine waits for a mutex for ever") })
	t.Cleanup(func() { stuck.Stop() })
}
