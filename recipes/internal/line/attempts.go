package line

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/retry"
)

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
		return client.WaitError(ctx, err)
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
