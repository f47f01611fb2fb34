package discovery

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-curator/curator/recipes/node"
)

// Registration is a registered instance, from [Discovery.Register] until Unregister. Safe for concurrent use.
type Registration[T any] struct {
	discovery  *Discovery[T]
	keeper     *node.Keeper
	registered Instance[T] // as it was registered, without its payload
}

// ID returns the ID of the instance, which Register may have made.
func (r *Registration[T]) ID() string { return r.registered.ID }

// Path returns the path of its node.
func (r *Registration[T]) Path() string { return r.keeper.Path() }

// Status returns the status of its node, as node.Keeper.Status does.
func (r *Registration[T]) Status() node.Status { return r.keeper.Status() }

// Follow yields the status and all its changes, as node.Keeper.Follow does.
func (r *Registration[T]) Follow(ctx context.Context) iter.Seq2[node.Status, error] {
	return r.keeper.Follow(ctx)
}

// Update sets the instance's data, now and whenever its node is recreated, and waits until the node has them: through
// lost connections and lost sessions. When ctx ends, the registration still sets them. The name and the type cannot
// be changed, nor can the ID; an empty ID and a zero time stand for the registered ones.
//
// Errors: [ErrInvalidInstance]; a refusal of the server, after which the instance is unchanged; ctx's; node.ErrClosed
// after Unregister; framework.ErrClosed. Data that other clients write into the node stay there until the next
// Update, or until the node has to be recreated.
//
// Corresponds to updateService.
func (r *Registration[T]) Update(ctx context.Context, instance Instance[T]) error {
	return wrapError(r.discovery.pathForErrors(r.registered.Name), "update", r.updateInstance(ctx, instance))
}

func (r *Registration[T]) updateInstance(ctx context.Context, instance Instance[T]) error {
	if instance.ID == "" {
		instance.ID = r.registered.ID
	}
	if instance.RegistrationTime.IsZero() {
		instance.RegistrationTime = r.registered.RegistrationTime
	}
	if instance.Name != r.registered.Name || instance.ID != r.registered.ID || instance.Type != r.registered.Type {
		return fmt.Errorf("%w: it is another than the %v %q of %q that was: register that", ErrInvalidInstance,
			r.registered.Type, r.registered.ID, r.registered.Name)
	}
	data, err := encodeInstance(instance, r.discovery.class)
	if err != nil {
		return err
	}
	return r.keeper.SetData(ctx, data)
}

// Unregister deletes the instance's node for certain, of whatever type, and waits until the servers have confirmed
// it, as node.Keeper.Close does: without a deadline in ctx for a session timeout at most. If ctx ends before, Unregister
// returns its error, and the client continues in the background; another Unregister waits for the same. A successor's node with the same ID stays.
//
// Other errors: a server's refusal to delete the node; framework.ErrClosed if the client was closed before, with
// whose session dynamic instances go. To leave a static instance in place, do not call Unregister.
//
// Corresponds to unregisterService.
func (r *Registration[T]) Unregister(ctx context.Context) error {
	return wrapError(r.discovery.pathForErrors(r.registered.Name), "unregister", r.keeper.Close(ctx))
}

// UnregisterInBackground is Unregister for a caller that does not wait: it returns immediately, and the node is deleted in
// the background. then, if given, gets the error that Unregister would return, as with node.Keeper.CloseInBackground.
func (r *Registration[T]) UnregisterInBackground(then ...func(err error)) {
	var report []func(error)
	for _, f := range then {
		if f != nil {
			report = append(report, func(err error) { f(wrapError(r.discovery.pathForErrors(r.registered.Name), "unregister", err)) })
		}
	}
	r.keeper.CloseInBackground(report...)
}
