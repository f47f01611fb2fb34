package flow

import (
	"context"
	"errors"
	"fmt"
)

// Ended returns the error of a wait that a ctx which is over has ended. It matches ctx.Err() and
// context.Cause(ctx), and names both unless they are the same.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w (%w)", err, cause)
}
