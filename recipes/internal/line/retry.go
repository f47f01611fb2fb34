package line

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/retry"
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
		return client.Left(ctx, nil)
	}
	return nil
}

// TryInSession calls look and then, if that returns nil, take, both in one session. Both are repeated together, by the
// retry policy: after a retryable error of look, and after the loss of the place in line ([IsPlaceLost]). take repeats its
// own requests.
func TryInSession(
	ctx context.Context, client *framework.Client, look, take func(context.Context, *framework.Session) error,
) error {
	return client.Retry(ctx, func(ctx context.Context) error {
		session, err := client.SessionSoon(ctx)
		if err != nil {
			return retry.Permanent(err) // it has been through the policy
		}
		if err = look(ctx, session); err != nil {
			return err
		}
		if err = take(ctx, session); err != nil && !IsPlaceLost(err) {
			return retry.Permanent(err)
		}
		return err
	}, retry.WithRetryable(func(err error) bool { return IsPlaceLost(err) || framework.Retryable(err) }))
}

// Attempts counts the attempts of one acquire that were shorter than longAttempt, in a row.
type Attempts int

// longAttempt is the length of an attempt after which the count begins again.
const longAttempt = 10 * time.Second

// AwaitNextAttempt returns nil, after a pause, if another attempt follows the attempt that err has ended: the session or the
// node was lost, or, if it was not the first attempt, err is Retryable. Otherwise it returns the error of the acquire.
// lasted is the length of the attempt; placed means that it had a place in line.
func (a *Attempts) AwaitNextAttempt(
	ctx context.Context, client *framework.Client, path string, lasted time.Duration, placed bool, err error,
) error {
	switch {
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return client.Left(ctx, err)
	case ctx.Err() != nil, !IsPlaceLost(err) && (*a == 0 || !framework.Retryable(err)):
		return err
	}
	if ended := client.Err(); ended != nil { // the view of a session has no next one
		return ended
	}
	if placed {
		client.Logger().Info("lost the place in the line; rejoining at the end", "path", path, "err", err)
	}
	if lasted > longAttempt {
		*a = 0
	}
	*a++
	return Backoff(ctx, client, int(*a-1))
}

// IsPlaceLost reports whether an error is the loss of a session or a node, after which an acquire may begin again.
func IsPlaceLost(err error) bool {
	return errors.Is(err, framework.ErrNodeDeleted) ||
		errors.Is(err, framework.ErrSessionLost) && !errors.Is(err, framework.ErrClosed)
}
