package line

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
)

// IsTransient returns a function for retry.WithRetryable. It reports whether an error is the loss of a connection, or of a
// session that the client replaces by the next.
func IsTransient(client *framework.Client) func(error) bool {
	return func(err error) bool {
		switch {
		case errors.Is(err, framework.ErrClosed):
			return false
		case errors.Is(err, framework.ErrSessionLost):
			return client.Err() == nil // the view of a session has no next one
		}
		return framework.Retryable(err)
	}
}

// MaxInFlight is the number of equal requests that a client sends before further goroutines share a request, where that
// delays a grant.
const MaxInFlight = 4

// RetryScope is the set of failures after which RetryThrough repeats: each value includes those before it.
type RetryScope int8

const (
	// Outages includes [IsTransient] errors: for callers that already have a node or a hold that outlives an outage.
	Outages RetryScope = iota
	// ReadOnlyMembers includes a connection to a member that serves only reads: for writes that have to be done.
	ReadOnlyMembers
	// RefusedCredentials includes that the servers refuse the client's credentials: for operations that other clients
	// depend on, such as the release of a lock, since the session and its nodes may live on.
	RefusedCredentials
)

// RetryThrough repeats op, which must be safe to repeat, until it succeeds, fails with an error that scope does not
// include, or ctx ends. No retry policy limits it. client is the client that op uses.
func RetryThrough(ctx context.Context, client *framework.Client, scope RetryScope, op func(context.Context) error) error {
	transient := IsTransient(client)
	for failures := 1; ; failures++ {
		err := op(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		again := transient(err)
		if again {
			err = client.WaitConnected(ctx)
			again = err == nil
		}
		if !again && (ctx.Err() != nil || !scope.includes(client, err)) {
			return err
		}
		if err := Backoff(ctx, client, failures); err != nil {
			return err
		}
	}
}

func (s RetryScope) includes(client *framework.Client, err error) bool {
	return s >= ReadOnlyMembers && errors.Is(err, framework.ErrNotReadOnly) ||
		s >= RefusedCredentials && errors.Is(err, framework.ErrAuthFailed) && client.Err() == nil
}

// Backoff sleeps for a random time, at most 10 ms doubled with each failure in a row, and at most a second; not at all
// without a failure. It ends as [Sleep] does.
func Backoff(ctx context.Context, client *framework.Client, failures int) error {
	if failures == 0 {
		return nil
	}
	return Sleep(ctx, client, chance.UpTo(min(10*time.Millisecond<<min(failures, 10), time.Second)))
}

// Sleep waits for d. It returns early when the client closes, and with ctx's error when ctx ends.
func Sleep(ctx context.Context, client *framework.Client, d time.Duration) error {
	client.Pause(ctx, d)
	if ctx.Err() != nil {
		return client.WaitError(ctx, nil)
	}
	return nil
}
