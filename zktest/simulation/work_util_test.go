package simulation_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-curator/curator/framework"
)

// notTaken marks the error of a Try as errNotNow if another client holds the right: that is not a failure.
func notTaken(err, taken error) error {
	if errors.Is(err, taken) {
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	return err
}

// isErr reports whether an operation was refused with one of these errors, and had no effect.
func isErr(err error, targets ...error) bool {
	return err != nil && !errors.Is(err, framework.ErrOutcomeUnknown) &&
		slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
