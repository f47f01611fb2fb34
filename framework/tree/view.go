package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/retry"
)

// unscopedClient is the view that the functions of this package send their requests with. It is outside the caller's
// namespace: in a namespace a read of "/" would create the namespace's root. A variable named at has a path of this
// view, one named path a path of the caller.
type unscopedClient struct {
	*framework.Client
	chroot    string // "/" if there is none
	namespace string // "/" if there is none
}

// resolveView returns the view for the caller's client, and the caller's path in that view.
func resolveView(c *framework.Client, path string) (v unscopedClient, at string, err error) {
	if _, err = c.FullPath(path); err != nil {
		return v, "", err
	}
	v = unscopedClient{Client: c.UsingNamespace(""), namespace: "/" + c.Namespace()}
	v.chroot, err = v.FullPath("/")
	return v, relocatePath(v.namespace, path), err
}

// relocatePath returns the path that a node has when the tree's root is moved to root.
func relocatePath(root, path string) string {
	switch {
	case path == "/":
		return root
	case root == "/":
		return path
	}
	return root + path
}

// callerPath returns the caller's path of a node: relative to the namespace, if the node is in it.
func (v unscopedClient) callerPath(at string) string {
	if v.namespace == "/" {
		return at
	}
	switch rest, ok := strings.CutPrefix(at, v.namespace); {
	case ok && rest == "":
		return "/"
	case ok && rest[0] == '/':
		return rest
	}
	return at
}

// wrapOpError returns the error of an operation on the caller's path; nil for nil. An error that has an operation
// already is returned as it is.
func wrapOpError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, named := err.(*framework.OpError); named {
		return err
	}
	return &framework.OpError{Op: op, Path: path, Err: err}
}

// unwrapOpError returns the error without the operation and path added by the framework.
func unwrapOpError(err error) error {
	if op, named := err.(*framework.OpError); named {
		return op.Err
	}
	return err
}

func badArguments(what string) error { return fmt.Errorf("%w: %s", framework.ErrBadArguments, what) }

// errRoot is the error of a deletion of "/".
var errRoot = badArguments("the root of the tree cannot be deleted")

const systemPath = "/zookeeper"

// isSystemPath reports whether the node at a path belongs to the servers: it is /zookeeper of the whole tree, or
// below it.
func (v unscopedClient) isSystemPath(at string) bool {
	full := relocatePath(v.chroot, at)
	return full == systemPath || strings.HasPrefix(full, systemPath+"/")
}

const (
	flightSize  = 512     // the most requests for single nodes in a flight
	flightBytes = 8 << 20 // of data in a flight; it may be exceeded, since the sizes are known only after reading
)

// sendFlight calls send, which sends the requests of a flight and returns the first error of a reply. After an error
// that may be repeated the retry policy decides whether it calls send again: so a repeat must do no harm.
func (v unscopedClient) sendFlight(ctx context.Context, send func(ctx context.Context) error) error {
	return v.Retry(ctx, func(ctx context.Context) error {
		err := send(ctx)
		if closed := v.Err(); err != nil && errors.Is(closed, framework.ErrClosed) && !errors.Is(err, closed) {
			err = fmt.Errorf("%w; an earlier request ended with: %w", closed, err) // keeps an ErrOutcomeUnknown
		}
		return err
	}, retry.WithRetryable(func(err error) bool {
		switch {
		case errors.Is(err, framework.ErrClosed):
			return false
		case errors.Is(err, framework.ErrSessionLost):
			return v.Err() == nil // else the view is of that session
		}
		return framework.Retryable(err)
	}))
}

// sendAll sends a request in the background for each value. The server executes them in this order.
func sendAll[V, T any](each []V, send func(V) *framework.Pending[T]) []*framework.Pending[T] {
	all := make([]*framework.Pending[T], len(each))
	for i, value := range each {
		all[i] = send(value)
	}
	return all
}

// awaitReplies waits for all replies, and calls each for every reply, in order; refused is the error if the request was
// refused. It returns the first error that is not a refusal, or that each has returned; after that error it does not
// call each again.
func awaitReplies[T any](ctx context.Context, all []*framework.Pending[T], each func(i int, v T, refused error) error) error {
	var first error
	for i, p := range all {
		v, err := p.Wait(ctx)
		if first != nil {
			continue // the rest may still be executed, which does no harm: a repeat is queued behind it
		}
		if err = unwrapOpError(err); isUnfinished(err) {
			first = err
		} else {
			first = each(i, v, err)
		}
	}
	return first
}

// isUnfinished reports whether err means that an operation has neither a result nor a refusal.
func isUnfinished(err error) bool {
	return err != nil && (framework.Retryable(err) || matchesAny(err, framework.ErrSessionLost, framework.ErrClosed,
		framework.ErrOutcomeUnknown, framework.ErrNotReadOnly, framework.ErrNotConnected, context.Canceled,
		context.DeadlineExceeded))
}

func matchesAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// listDirectories lists the children of nodes in one flight. Then it calls each for every node, with the names of its
// children or the error if the list was refused, until each returns an error, and returns that error.
func (v unscopedClient) listDirectories(ctx context.Context, dirs []string, each func(i int, names []string, refused error) error) error {
	type list struct {
		names []string
		err   error
	}
	got := make([]list, len(dirs))
	err := v.sendFlight(ctx, func(ctx context.Context) error {
		all := sendAll(dirs, func(dir string) *framework.Pending[framework.ChildrenResult] {
			return v.GetChildren().InBackground().ForPath(ctx, dir)
		})
		return awaitReplies(ctx, all, func(i int, r framework.ChildrenResult, refused error) error {
			got[i] = list{r.Names, refused}
			return nil
		})
	})
	for i := 0; err == nil && i < len(got); i++ {
		err = each(i, got[i].names, got[i].err)
	}
	return err
}
