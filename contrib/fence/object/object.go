// Package object fences writes to object stores that can write an object on the condition that its version is
// unchanged, such as S3 with If-Match, Google Cloud Storage with ifGenerationMatch, and Azure with ETags.
//
// The newest token is stored with the object, in its metadata. Each write reads the object, fails if the token there is
// larger than the writer's, and else writes on the condition that the object has not changed since. So no other write can
// come between the check and the write.
package object

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/go-curator/curator/contrib/fence"
)

// Errors that a [Store] returns. Use errors.Is.
var (
	ErrNotFound = errors.New("there is no such object")
	ErrChanged  = errors.New("the object has another version")
)

// Object is an object with its token and its version.
type Object struct {
	Data    []byte
	Token   int64  // in its metadata; 0 if there is none, because the object was not written through a fence
	Version string // the store's ETag or generation; never empty if the object exists
}

// Store is an object store, as far as a fence needs it. Implementations adapt a client.
type Store interface {
	// Get returns an object as it was last written; [ErrNotFound] if it does not exist.
	Get(ctx context.Context, name string) (Object, error)
	// PutIf writes data and token if the object has this version or, if version is "", if it does not exist; otherwise
	// it writes nothing and returns [ErrChanged]. The store itself has to compare and write, in one request.
	PutIf(ctx context.Context, name string, data []byte, token int64, version string) error
}

// Write writes an object unless its token is larger than the given one: then the error matches [fence.ErrOutdated],
// and nothing is written. If other clients write at the same time it tries again, until ctx ends. It returns other errors
// of PutIf; the outcome may be unknown then. Write may be repeated with the same token and data.
//
// The name of the object is the resource: it is 1 to 255 bytes long. Do not delete objects: the token is deleted with
// the object, and a late write would create the object again. Write an empty object instead.
func Write(ctx context.Context, store Store, name string, token int64, data []byte) error {
	return Update(ctx, store, name, token, func(Object) ([]byte, error) { return data, nil })
}

// Update is [Write] for data that depend on the present object: change is called with the object, or with the zero Object
// if there is none, and returns the new data. If another client has written in the meantime, change is called again, with
// that client's object. Update returns an error of change. If Update succeeds, it has replaced exactly the object of the
// last call: no other write, such as that of a former holder, has come in between.
func Update(
	ctx context.Context, store Store, name string, token int64, change func(Object) ([]byte, error),
) error {
	if err := fence.Check(name, token); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("fence: writing the object %q: %w", name, context.Cause(ctx))
		}
		old, err := store.Get(ctx, name)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("fence: reading the object %q: %w", name, err)
		}
		if err != nil {
			old = Object{}
		}
		if old.Token > token {
			return fmt.Errorf("fence: %w", &fence.OutdatedError{Resource: name, Token: token, Newest: old.Token})
		}
		data, err := change(old)
		if err != nil {
			return err
		}
		err = store.PutIf(ctx, name, data, token, old.Version)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrChanged) {
			return fmt.Errorf("fence: writing the object %q: %w", name, err)
		}
	}
}

// Memory is a [Store] in memory, for tests. The zero value is empty. Safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	objects map[string]Object // guarded by mu
	version int64             // guarded by mu
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, name string) (Object, error) {
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[name]
	if !ok {
		return Object{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	o.Data = append([]byte{}, o.Data...)
	return o, nil
}

// PutIf implements [Store].
func (m *Memory) PutIf(ctx context.Context, name string, data []byte, token int64, version string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[name].Version != version {
		return fmt.Errorf("%w: %q", ErrChanged, name)
	}
	if m.objects == nil {
		m.objects = map[string]Object{}
	}
	m.version++
	m.objects[name] = Object{append([]byte{}, data...), token, strconv.FormatInt(m.version, 10)}
	return nil
}
