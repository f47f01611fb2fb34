package sim

import (
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
)

// notTaken is an error of a Try: that somebody else has it is no failure.
func notTaken(err, taken error) error {
	if errors.Is(err, taken) {
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	return err
}

func isErr(err, target error) bool {
	return err != nil && errors.Is(err, target) && !errors.Is(err, framework.ErrOutcomeUnknown)
}
