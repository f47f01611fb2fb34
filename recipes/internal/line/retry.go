package line

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/retry"
)

// IsTransient returns a function for retry.WithRetryable: it reports whether an error is one of the connection, or of a session
// after which the client opens the next one.
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

// MaxInFlight limits the requests of one kind that a client has in flight where sharing makes a goroutine wait longer
// for its turn: so a few goroutines need not wait for each other.
const MaxInFlight = 4

// RetryScope is the set of failures that RetryThrough retries through: each value includes the ones before it.
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

// RetryThrough repeats op, which must be safe to repeat, until it succeeds, fails for a reason that beyond does not include,
// or ctx ends, however long that takes. client is the client that op uses.
func RetryThrough(ctx context.Context, client *framework.Client, beyond RetryScope, op func(context.Context) error) error {
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
		if !again && (ctx.Err() != nil || !beyond.includes(client, err)) {
			return err
		}
		if err := Backoff(ctx, client, failures); err != nil {
			return err
		}
	}
}

func (b RetryScope) includes(client *framework.Client, err error) bool {
	return b >= ReadOnlyMembers && errors.Is(err, framework.ErrNotReadOnly) ||
		b >= RefusedCredentials && errors.Is(err, framework.ErrAuthFailed) && client.Err() == nil
}

// Backoff is [Sleep] for a random time, the longer the more failures there were in a row, at most a second.
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

// TryInSession calls look, and then take if look returns nil, in one session. look is repeated as the retry policy says. take
// repeats its own requests, so it is called again only when the place in line was lost.
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

// Attempts counts the attempts of one acquire that have ended soon, in a row: a caller that loses its place
// goes to the end of the line.
type Attempts int

// longAttempt is the length of an attempt from which its end does not count as one of a series.
const longAttempt = 10 * time.Second

// AwaitNextAttempt waits for the next attempt after err has ended one. lasted is the length of the attempt; placed means that it
// had a place in line. It returns nil for another attempt: the session or the node was lost, or there is an outage and
// it was not the first attempt. Otherwise it returns the error of the acquire.
func (a *Attempts) AwaitNextAttempt(
	ctx context.Context, client *framework.Client, path string, lasted time.Duration, placed bool, err error,
) error {
	switch {
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return client.Left(ctx, err)
	case ctx.Err() != nil, !IsPlaceLost(err) && (*a == 0 || !framework.Retryable(err)):
		return err
	}
	if over := client.Err(); over != nil { // the view of a session has no next one
		return over
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
