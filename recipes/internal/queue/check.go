package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Check refuses what no recipe can be made with. The root is refused, too: a recipe takes all children of its directory for its own, and puts them
// there without being asked again. In a namespace "/" is the namespace's node, which somebody has named.
func Check(client *framework.Client, path string) error {
	if err := Made(client, nil); err != nil {
		return err
	}
	var fault *zkpath.Error
	if err := zkpath.Validate(path, false); errors.As(err, &fault) {
		return fmt.Errorf("%w %q: %s", framework.ErrInvalidPath, fault.Path, fault.Reason)
	}
	if path == "/" && client.Namespace() == "" {
		return fmt.Errorf("%w %q: a recipe needs a node of its own, and the root belongs to all; name one below it", framework.ErrInvalidPath, path)
	}
	return nil
}

// Configure checks the arguments that the constructors of all recipes have, and applies the options to of, which is what they make.
func Configure[T any, O ~func(*T) error](client *framework.Client, path string, of *T, opts []O) error {
	if err := Check(client, path); err != nil {
		return err
	}
	for _, opt := range opts {
		if opt == nil {
			return fmt.Errorf("%w: an option is nil; leave it out", framework.ErrInvalidOption)
		}
		if err := opt(of); err != nil {
			return err
		}
	}
	return nil
}

// Policy is p as the argument of an option WithLossPolicy.
func Policy(p framework.LossPolicy) (framework.LossPolicy, error) {
	if p != framework.SessionOnly && p != framework.SuspendedIsLoss {
		return p, fmt.Errorf("%w WithLossPolicy: there is no policy %d; choose SessionOnly or SuspendedIsLoss", framework.ErrInvalidOption, p)
	}
	return p, nil
}

// Called is f as the argument of an option OnWait.
func Called[P any](f func(P)) (func(P), error) {
	if f == nil {
		return nil, fmt.Errorf("%w OnWait: the function is nil; leave the option out", framework.ErrInvalidOption)
	}
	return f, nil
}

// Made is fault, or framework.ErrNoClient if the client of a recipe is nil or not one, as that of a recipe's zero value.
func Made(client *framework.Client, fault error) error {
	if fault == nil && errors.Is(client.Over(), framework.ErrNoClient) {
		return framework.ErrNoClient
	}
	return fault
}

// Ready says whether a method of a recipe may begin: with nil, if the recipe is Made and ctx has not ended.
func Ready(ctx context.Context, client *framework.Client, fault error) error {
	fault = Made(client, fault)
	switch {
	case fault != nil:
		return fault
	case ctx == nil:
		return framework.ErrNilContext
	case ctx.Err() != nil:
		return client.Left(ctx, nil)
	}
	return nil
}

// Failed says, once, what has failed of which recipe at which path, "" if it has none; nil if err is.
func Failed(what, path, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case path == "":
		return fmt.Errorf("%s: %s: %w", what, verb, err)
	}
	return fmt.Errorf("%s %s: %s: %w", what, path, verb, err)
}
