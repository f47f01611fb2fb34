package line

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// CheckArguments checks the client and the path of a recipe. The root is not allowed: a recipe treats all children of its
// directory as its own. In a namespace "/" is the namespace's node, which is allowed.
func CheckArguments(client *framework.Client, path string) error {
	if errors.Is(client.Err(), framework.ErrNoClient) {
		return framework.ErrNoClient
	}
	var fault *zkpath.Error
	if err := zkpath.Validate(path, false); errors.As(err, &fault) {
		return fmt.Errorf("%w %q: %s", framework.ErrInvalidPath, fault.Path, fault.Reason)
	}
	if path == "/" && client.Namespace() == "" {
		return fmt.Errorf("%w %q: a recipe needs a node of its own, not the root; give a path below the root",
			framework.ErrInvalidPath, path)
	}
	return nil
}

// Configure checks the arguments that all recipes have, and applies the options to recipe.
func Configure[T any, O ~func(*T) error](client *framework.Client, path string, recipe *T, opts []O) error {
	if err := CheckArguments(client, path); err != nil {
		return err
	}
	for _, opt := range opts {
		if opt == nil {
			return fmt.Errorf("%w: an option is nil; leave it out", framework.ErrInvalidOption)
		}
		if err := opt(recipe); err != nil {
			return err
		}
	}
	return nil
}

// CheckLossPolicy checks the argument of an option WithLossPolicy.
func CheckLossPolicy(p framework.LossPolicy) (framework.LossPolicy, error) {
	if p != framework.SessionOnly && p != framework.SuspendedIsLoss {
		return p, fmt.Errorf("%w WithLossPolicy: there is no policy %d; choose SessionOnly or SuspendedIsLoss",
			framework.ErrInvalidOption, p)
	}
	return p, nil
}

// CheckOnWait checks the argument of an option OnWait.
func CheckOnWait[P any](f func(P)) (func(P), error) {
	if f == nil {
		return nil, fmt.Errorf("%w OnWait: the function is nil; leave the option out",
			framework.ErrInvalidOption)
	}
	return f, nil
}

// AddForeign checks the argument of an option WithForeignContenders, and combines it with the earlier ones.
func AddForeign(before, is func(name string) bool) (func(name string) bool, error) {
	if is == nil {
		return nil, fmt.Errorf("%w WithForeignContenders: the function is nil; leave the option out",
			framework.ErrInvalidOption)
	}
	if before == nil {
		return is, nil
	}
	return func(name string) bool { return before(name) || is(name) }, nil
}

// CheckCall returns the error of a method of a recipe that must not begin: fault, which the constructor has recorded,
// ErrNoClient for a zero value, ErrNilContext, or ctx's.
func CheckCall(ctx context.Context, client *framework.Client, fault error) error {
	switch {
	case fault != nil:
		return fault
	case client == nil: // in the zero value of a recipe
		return framework.ErrNoClient
	case ctx == nil:
		return framework.ErrNilContext
	case ctx.Err() != nil:
		return client.WaitError(ctx, nil)
	}
	return nil
}

// WrapError returns err with the recipe, its path unless that is "", and the operation in front; nil if err is nil.
func WrapError(recipe, path, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case path == "":
		return fmt.Errorf("%s: %s: %w", recipe, verb, err)
	}
	return fmt.Errorf("%s %s: %s: %w", recipe, path, verb, err)
}

// IgnoreError returns nil if err matches expected, and otherwise err.
func IgnoreError(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
