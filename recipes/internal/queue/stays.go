package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/retry"
)

// Stays are the stays in line of one acquire: whoever loses the place goes to the end of it. The zero value is before the first.
type Stays struct {
	n     int // in a row, of those that did not last
	began time.Time
}

// settled is how long a stay must have lasted for its end not to look like a part of a series.
const settled = 10 * time.Second

// Begin begins a stay.
func (s *Stays) Begin() { s.n, s.began = s.n+1, time.Now() }

// Again is called with the error that has ended a stay. It returns nil when it is time for the next one: the session, or a node, was lost, or there is an outage,
// which is sat out by who has been in line before. Else it returns the error of the acquire.
func (s *Stays) Again(ctx context.Context, client *framework.Client, path string, err error) error {
	switch {
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return client.Left(ctx, err)
	case ctx.Err() != nil, !BeginAgain(err) && (s.n == 1 || !framework.Retryable(err)):
		return err
	}
	if over := client.Over(); over != nil { // the view of a session has no other one to go on in
		return over
	}
	client.Logger().Info("place in line lost; going to the end of it", "path", path, "err", err)
	if time.Since(s.began) > settled {
		s.n = 1
	}
	return Pause(ctx, client, s.n-1)
}

// Try tries what takes a session, as often as the retry policy says: also when what it had was lost, in the next session then.
func Try(ctx context.Context, client *framework.Client, try func(context.Context, *framework.Session) error) error {
	return client.Retry(ctx, func(ctx context.Context) error {
		session, err := client.SessionSoon(ctx)
		if err != nil {
			return retry.Permanent(err) // it has been through the policy
		}
		return try(ctx, session)
	}, retry.WithRetryable(func(err error) bool { return BeginAgain(err) || framework.Retryable(err) }))
}

// BeginAgain says whether an error is the loss of what an acquire had so far, and not its end.
func BeginAgain(err error) bool {
	return errors.Is(err, framework.ErrNodeDeleted) || errors.Is(err, framework.ErrSessionLost) && !errors.Is(err, framework.ErrClosed)
}
