package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
)

// Passing says of an error that it is about the way to the servers, or about the session and the client goes on to the next: that it may be tried again.
func Passing(client *framework.Client) func(error) bool {
	return func(err error) bool {
		switch {
		case errors.Is(err, framework.ErrClosed):
			return false
		case errors.Is(err, framework.ErrSessionLost):
			return client.Over() == nil // the view of a session has no other one to go on in
		}
		return framework.Retryable(err)
	}
}

// Patiently repeats what does no harm twice until it is done or fails for another reason than the way to the servers, however long that is blocked: for who
// has something already that outlives that. The client is the one that op uses.
func Patiently(ctx context.Context, client *framework.Client, op func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := op(ctx)
		if err == nil || ctx.Err() != nil || !Passing(client)(err) {
			return err
		}
		if err := client.WaitConnected(ctx); err != nil {
			return err
		}
		if err := Pause(ctx, client, failures); err != nil {
			return err
		}
	}
}

// Pause keeps those who fail, or lose their nodes, again and again from running in circles. It waits the longer the more failures there were in a row,
// but not longer than until the client closes, or ctx ends, which is its error.
func Pause(ctx context.Context, client *framework.Client, failures int) error {
	if failures == 0 {
		return nil
	}
	client.Pause(ctx, chance.UpTo(min(10*time.Millisecond<<min(failures, 10), time.Second)))
	if ctx.Err() != nil {
		return client.Left(ctx, nil)
	}
	return nil
}
