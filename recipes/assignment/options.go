package assignment

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
)

// Errors of this package. Use errors.Is.
var (
	// ErrMoved is the cause of the end of an item's context if the item is planned for another member, or was removed
	// from the list.
	ErrMoved = errors.New("the item is to go to another member, or is no longer an item")
	// ErrRunning is returned by a second Run while the first has not returned.
	ErrRunning = errors.New("this assignment is running already: make another one")
	// ErrNotRunning is returned if Run ends before the list is set.
	ErrNotRunning = errors.New("the assignment is not running any more")
	// ErrBadPlan is returned if the data of the plan's node do not have this package's layout.
	ErrBadPlan = errors.New("the node does not contain a plan: look who else writes there")
)

// Option configures [New]. If one is given several times the last counts.
type Option func(*Assignment) error

// WithID sets the member's id: the name of its node, and of the owner in [Assignment.Plan]. It must be unique in the
// group. A process that restarts with its id within the settle time keeps its items; but it waits until the node of
// its former session is gone, which Run logs. Default: a random UUID.
func WithID(id string) Option {
	return func(a *Assignment) error {
		if err := checkName("id", id); err != nil {
			return fmt.Errorf("%w WithID: %w", framework.ErrInvalidOption, err)
		}
		a.id = id
		return nil
	}
}

const maxWeight = 1_000_000

// WithWeight sets the member's weight, 0 to 1,000,000: a member of weight 2 has twice as many items as one of
// weight 1. A member of weight 0 has none. Default 1.
func WithWeight(weight int) Option {
	return func(a *Assignment) error {
		if err := checkWeight(weight); err != nil {
			return fmt.Errorf("%w WithWeight: %w", framework.ErrInvalidOption, err)
		}
		a.weight = weight
		return nil
	}
}

func checkWeight(weight int) error {
	if weight < 0 || weight > maxWeight {
		return fmt.Errorf("%w: the weight %d is not between 0 and %d", framework.ErrBadArguments, weight,
			maxWeight)
	}
	return nil
}

// WithSettle sets for how long the plan must have been unfit before a member writes another one: all joins and leaves
// within that time are one change. At least a millisecond, at most an hour. Default half a second.
func WithSettle(d time.Duration) Option {
	return func(a *Assignment) error {
		if d < time.Millisecond || d > time.Hour {
			return fmt.Errorf("%w WithSettle: %v is not between a millisecond and an hour",
				framework.ErrInvalidOption, d)
		}
		a.settle = d
		return nil
	}
}
