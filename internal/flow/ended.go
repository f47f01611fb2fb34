package flow

import (
	"context"
	"errors"
	"fmt"
)

// Ended returns the error of a wait that ended because ctx, which must have ended, did. The error matches
// ctx.Err() and context.Cause(ctx). Its text has both, unless the cause matches ctx.Err() already.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w (%w)", err, cause)
}
