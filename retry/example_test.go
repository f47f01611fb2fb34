package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/retry"
)

func ExampleDo() {
	errBusy := errors.New("server is busy")
	attempts := 0

	err := retry.Do(context.Background(), retry.ExponentialBackoff{Base: time.Millisecond,
		Max: 5 * time.Millisecond, Retries: 10},
		func(context.Context) error {
			attempts++
			if attempts < 3 {
				return errBusy
			}
			return nil
		},
		retry.WithRetryable(func(err error) bool { return errors.Is(err, errBusy) }),
		retry.WithNotify(func(err error, _ time.Duration) { fmt.Println("again, because", err) }),
	)
	fmt.Println(attempts, "attempts:", err)
	// Output:
	// again, because server is busy
	// again, because server is busy
	// 3 attempts: <nil>
}

// Any backoff of github.com/cenkalti/backoff/v4 is a policy.
func ExampleBackoff() {
	policy := retry.Backoff(func() backoff.BackOff {
		return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Millisecond), 2)
	})
	attempts := 0
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		attempts++
		return errors.New("not yet")
	})
	fmt.Println(attempts, "attempts:", err)
	// Output: 3 attempts: not yet
}
