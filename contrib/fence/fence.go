// Package fence passes the fencing token of a hold to the stores that the holder writes to, so that they refuse late
// writes.
//
// No lock can stop a write that its holder has begun: a process that is paused between its last check of the hold and
// its write may continue with that write at any time after the loss. A store can refuse that write, if it stores the
// largest token that it has received, and refuses smaller ones. The token is a number that grows from holder to holder:
// the czxid of the lock's node.
//
//	var fences = fencesql.New(fencesql.PostgreSQL) // contrib/fence/sql
//
//	orders := mutex.New(client, "/locks/orders")
//	err := orders.Do(ctx, func(ctx context.Context) error {
//		token, err := fence.From(ctx)
//		…
//		tx, err := db.BeginTx(ctx, nil)
//		…
//		if err := fences.Guard(ctx, tx, "orders", token); err != nil {
//			return errors.Join(err, tx.Rollback()) // fence.ErrOutdated: another client has held the lock since
//		}
//		…
//	})
//
// This module has the parts that all stores share: [From], the errors, [Store] with [Memory], and [Gate] for
// services. The stores are separate modules below it: sql, redis, http, grpc; package object is for object stores.
//
// A fence refuses tokens that are smaller than the largest that it has received. It receives the token of a new holder
// with the holder's first guarded write. A late write of the former holder that comes before that still succeeds; the
// new holder reads its result, if it guards before it reads.
//
// Tokens can be compared only within one ensemble that keeps its data. After you have moved to another ensemble, or
// have restored a backup, delete the tokens that the fences have stored. A resource must have one lock only: the tokens
// of two locks cannot be compared.
//
// This package has no counterpart in Curator.
package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-curator/curator/internal/fencing"
)

// Errors of this package. Use errors.Is.
var (
	// ErrOutdated means that the fence has received a larger token for the resource: another client has held the lock
	// since, and the write was not executed. The error is an [OutdatedError].
	ErrOutdated = errors.New("the fencing token is outdated")
	// ErrForgotten means that a [Memory] has no token of the resource, and that the given token is smaller than the
	// largest one that it has forgotten: it may be outdated. The write was not executed. A new hold has a larger
	// token.
	ErrForgotten = errors.New("the fencing token may be outdated")
	// ErrNoHold means that the context belongs to no hold.
	ErrNoHold = errors.New("the context belongs to no hold")
	// ErrNoToken means that the hold has no fencing token, since other holds may exist at the same time (a read lock,
	// leases of a semaphore, the membership in a barrier), or share its node one after the other (the turn of a
	// mutex.Cohort). The error is a [NoTokenError].
	ErrNoToken = errors.New("the hold has no fencing token")
	// ErrSeveral means that the context belongs to several holds: select one with [FromLock].
	ErrSeveral = errors.New("the context belongs to several holds")
	// ErrBadArguments means that a token is not positive, or a resource is not a text of 1 to 255 bytes of UTF-8
	// without NUL.
	ErrBadArguments = errors.New("bad arguments")
)

// OutdatedError is an [ErrOutdated].
type OutdatedError struct {
	Resource string
	Token    int64 // of the refused write
	Newest   int64 // the largest token that the store has; 0 if the store does not report it
}

// Error implements error.
func (e *OutdatedError) Error() string {
	if e.Newest == 0 {
		return fmt.Sprintf("%v: %d for %q", ErrOutdated, e.Token, e.Resource)
	}
	return fmt.Sprintf("%v: %d for %q, where %d was seen", ErrOutdated, e.Token, e.Resource, e.Newest)
}

// Is has errors.Is match [ErrOutdated].
func (e *OutdatedError) Is(target error) bool { return target == ErrOutdated }

// NoTokenError is an [ErrNoToken].
type NoTokenError struct {
	Path string // of the hold's node
}

// Error implements error.
func (e *NoTokenError) Error() string {
	return fmt.Sprintf("%v: others may have what %q stands for, too", ErrNoToken, e.Path)
}

// Is has errors.Is match [ErrNoToken].
func (e *NoTokenError) Is(target error) bool { return target == ErrNoToken }

// From returns the fencing token of the hold that ctx belongs to. ctx is the hold's Context, the context that Do or
// another method has passed to a function under the hold, or a context derived from one of these. From sends nothing
// and does not block.
//
// If ctx belongs to holds of several locks the error is [ErrSeveral]: with the token of the wrong lock, late writes
// would succeed. Other errors: [ErrNoHold]; [ErrNoToken], as a [NoTokenError]; and, if the hold has ended, the cause of
// that, such as framework.ErrSessionLost or ErrReleased.
func From(ctx context.Context) (int64, error) { return tokenOf(ctx, "") }

// FromLock is [From] for a context that belongs to several holds: it returns the token of the lock at path, the path
// that was given to the recipe. The node of the hold is at path or below it.
func FromLock(ctx context.Context, path string) (int64, error) {
	if !strings.HasPrefix(path, "/") {
		return 0, fmt.Errorf("fence: %w: the path %q of a lock", ErrBadArguments, path)
	}
	return tokenOf(ctx, path)
}

// tokenOf returns the token of ctx's hold of a lock; with "" of its only hold.
func tokenOf(ctx context.Context, lock string) (int64, error) {
	if ctx == nil {
		return 0, fmt.Errorf("fence: %w: the context is nil", ErrBadArguments)
	}
	var found []fencing.Hold
	for _, h := range fencing.Of(ctx) {
		if lock == "" || h.Path == lock || strings.HasPrefix(h.Path, strings.TrimSuffix(lock, "/")+"/") {
			found = append(found, h)
		}
	}
	switch {
	case len(found) == 0 && lock != "":
		return 0, fmt.Errorf("fence: %w at %q", ErrNoHold, lock)
	case len(found) == 0:
		return 0, fmt.Errorf("fence: %w", ErrNoHold)
	case len(found) > 1:
		return 0, fmt.Errorf("fence: %w, of %q and %q: name one with FromLock", ErrSeveral, found[0].Path,
			found[1].Path)
	}
	hold := found[0]
	if hold.Shared || hold.Token == 0 {
		return 0, fmt.Errorf("fence: %w", &NoTokenError{hold.Path})
	}
	if hold.Context.Err() != nil {
		return 0, fmt.Errorf("fence: the hold of %q has ended: %w", hold.Path, context.Cause(hold.Context))
	}
	return hold.Token, nil
}

// Check returns an [ErrBadArguments] if the arguments of a fence are invalid. For authors of stores.
func Check(resource string, token int64) error {
	switch {
	case token <= 0:
		return fmt.Errorf("fence: %w: the token %d is not positive", ErrBadArguments, token)
	case resource == "" || len(resource) > 255 || !utf8.ValidString(resource) || strings.ContainsRune(resource, 0):
		return fmt.Errorf("fence: %w: the resource %.300q is not a text of 1 to 255 bytes without NUL",
			ErrBadArguments, resource)
	}
	return nil
}

// Store remembers the newest token of each resource.
type Store interface {
	// Admit stores the token, or returns an error that matches [ErrOutdated] if a larger one is stored. The same token
	// again is not an error: a holder writes more than once. Calls at the same time must be executed one after the
	// other. Safe for concurrent use.
	//
	// A write after Admit may be late by any time. So Admit alone protects nothing: use it in the transaction of the
	// write, as the module sql does, or through a [Gate].
	Admit(ctx context.Context, resource string, token int64) error
}
