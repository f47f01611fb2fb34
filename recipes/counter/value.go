package counter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Value is a value in a node that every client may read, set and watch. It is read only on request. Safe for
// concurrent use, if its codec is.
//
// Corresponds to Curator's SharedValue and DistributedAtomicValue with the codec [Bytes], and shares the node with
// them: persistent, the data as the codec writes them.
type Value[T any] struct {
	node  *valueNode
	codec Codec[T]
}

// Count is a Value that is a number of four bytes, big-endian. Corresponds to Curator's SharedCount.
type Count = Value[int32]

// Seen is a value at one moment.
type Seen[T any] struct {
	// N is the value: the number, or the result of the codec.
	N T
	// Version counts the changes of the node since it was made.
	Version int32
	// Mzxid is the transaction of the last change: it grows from change to change, also when the node is recreated.
	Mzxid int64
	// Changed is the time of the last change, by the server's clock.
	Changed time.Time
}

// NewValue makes the value at path. It sends nothing. A mistake in the arguments (a nil client, a path that
// cannot be one or is the root, half a codec) is reported by every method, before anything is sent.
func NewValue[T any](client *framework.Client, path string, codec Codec[T]) *Value[T] {
	v := &Value[T]{newValueNode(client, path), codec}
	if v.node.err == nil && (codec.Encode == nil || codec.Decode == nil) {
		v.node.err = fmt.Errorf("%w: a codec needs Encode and Decode", framework.ErrBadArguments)
	}
	return v
}

// NewCount makes the count at path, as NewValue does. Unlike an [Integer] it does not take a node without
// data for 0.
func NewCount(client *framework.Client, path string) *Count {
	return NewValue(client, path, countCodec)
}

// Path returns the value's path.
func (v *Value[T]) Path() string {
	if v == nil || v.node == nil {
		return ""
	}
	return v.node.path
}

// Get reads the value. Errors: ErrNoNode if it was never set; ErrBadValue if its data cannot
// be decoded; and the errors that every operation can return.
func (v *Value[T]) Get(ctx context.Context) (Seen[T], error) {
	if err := v.checkReady(ctx); err != nil {
		return Seen[T]{}, v.wrapError("get", err)
	}
	c, err := v.node.readContent(ctx)
	seen, err := v.decodeContent(c, err)
	return seen, v.wrapError("get", err)
}

// Set sets the value to n, whatever it was. It makes the node if there is none, and missing parents as containers. Of
// two concurrent Sets one value remains; [Value.CompareAndSet] and [Value.Update] are for values that depend on the
// previous one. After a lost reply it is repeated, so it may overwrite a value that another client has written in
// between. Corresponds to Curator's setValue and forceSet.
func (v *Value[T]) Set(ctx context.Context, n T) error {
	err := v.checkReady(ctx)
	if err == nil {
		var data []byte
		if data, err = v.encodeValue(n); err == nil {
			err = v.node.overwriteData(ctx, data)
		}
	}
	return v.wrapError("set", err)
}

// CreateIfMissing creates the value's node with n in it, and missing parents as containers, if there is none; an
// existing node is left as it is. It returns the value then. Of several concurrent calls one creates it, and all
// return that value. Corresponds to Curator's initialize.
func (v *Value[T]) CreateIfMissing(ctx context.Context, n T) (seen Seen[T], _ error) {
	err := v.checkReady(ctx)
	if err == nil {
		var data []byte
		if data, err = v.encodeValue(n); err == nil {
			seen, err = v.decodeContent(v.node.readOrCreate(ctx, data))
		}
	}
	return seen, v.wrapError("create if missing", err)
}

// CompareAndSet sets the value to n if it has not changed since it was seen, and returns the new value. Otherwise the
// error is ErrBadVersion, also when the node was deleted and recreated since, and for a zero Seen:
// [Value.CreateIfMissing] creates a missing value. ErrNoNode if the node is gone.
//
// It is executed once or not at all, also when replies are lost, as the package's documentation says. If that
// cannot be known the error matches ErrOutcomeUnknown: Get again.
//
// The servers compare only versions, which restart at 0 when a node is recreated. So CompareAndSet first reads, after
// a sync in flight at the same time, whether the node is the same. If another client deletes the value after that,
// recreates it and changes it up to the same version, it is overwritten nevertheless: do not delete a value that is
// used this way.
func (v *Value[T]) CompareAndSet(ctx context.Context, seen Seen[T], n T) (Seen[T], error) {
	now, err := v.compareAndSet(ctx, seen, n)
	return now, v.wrapError("compare and set", err)
}

func (v *Value[T]) compareAndSet(ctx context.Context, seen Seen[T], n T) (now Seen[T], _ error) {
	if err := v.checkReady(ctx); err != nil {
		return now, err
	}
	if seen.Mzxid == 0 && seen.Version != -1 {
		return now, fmt.Errorf("%w: the value was never seen: Get it first, or CreateIfMissing",
			framework.ErrBadVersion)
	}
	data, err := v.encodeValue(n)
	if err != nil {
		return now, err
	}
	for {
		if seen.Version != -1 {
			unchanged := func(ctx context.Context) error { return v.node.checkUnchanged(ctx, seen.Mzxid) }
			if err := v.node.client.Retry(ctx, unchanged); err != nil {
				return now, err
			}
		}
		from := nodeContent{stat: framework.Stat{Version: seen.Version, Mzxid: seen.Mzxid}}
		now, err = v.replaceContent(ctx, from, n, data)
		if !errors.Is(err, errMarkGone) || !lostRace(err) {
			return now, err
		}
	}
}

// replaceContent replaces the content that was read by n, encoded as data.
func (v *Value[T]) replaceContent(ctx context.Context, from nodeContent, n T, data []byte) (now Seen[T], _ error) {
	if err := v.node.acquireSlot(ctx); err != nil {
		return now, err
	}
	defer v.node.releaseSlot()
	stat, err := v.node.writeIfVersion(ctx, from.stat, data)
	if err != nil {
		return now, err
	}
	return newSeen(n, stat), nil
}

// Update reads the value, calls f with it, and sets it to f's result, if it has not changed in between; otherwise it
// starts over after a random pause, until ctx ends. It returns the new value. An error of f ends it, and nothing is
// set. f may be called several times, on the caller's goroutine, and its last result is set once or not at all, as
// with [Value.CompareAndSet]. ErrNoNode if the node is missing: see [Value.CreateIfMissing]. Corresponds to Curator's
// trySet.
func (v *Value[T]) Update(ctx context.Context, f func(T) (T, error)) (now Seen[T], err error) {
	if err = v.checkReady(ctx); err == nil && f == nil {
		err = fmt.Errorf("%w: Update without a function", framework.ErrBadArguments)
	}
	for failures := 0; err == nil; failures++ {
		if now, err = v.update(ctx, f); !lostRace(err) {
			break
		}
		err = line.Backoff(ctx, v.node.client, failures)
	}
	return now, v.wrapError("update", err)
}

func (v *Value[T]) update(ctx context.Context, f func(T) (T, error)) (now Seen[T], _ error) {
	from, err := v.node.readContent(ctx)
	seen, err := v.decodeContent(from, err)
	if err != nil {
		return now, err
	}
	n, err := f(seen.N)
	if err != nil {
		return now, err
	}
	data, err := v.encodeValue(n)
	if err != nil {
		return now, err
	}
	return v.replaceContent(ctx, from, n, data)
}

// lostRace reports whether a write was not executed because another client was faster.
func lostRace(err error) bool {
	return errors.Is(err, framework.ErrBadVersion) && !errors.Is(err, framework.ErrOutcomeUnknown)
}

func (v *Value[T]) checkReady(ctx context.Context) error {
	if v == nil {
		return framework.ErrNoClient
	}
	return v.node.checkReady(ctx)
}

func (v *Value[T]) wrapError(verb string, err error) error { return wrapError(v.Path(), verb, err) }

func (v *Value[T]) encodeValue(n T) ([]byte, error) {
	data, err := v.codec.Encode(n)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", framework.ErrBadArguments, err)
	case data == nil:
		return []byte{}, nil // nil would be the client's default data
	}
	return data, nil
}

// Decode reads the data of the node as Get does, for a caller that has read the node together with others.
func (v *Value[T]) Decode(data []byte) (T, error) {
	seen, err := v.decodeContent(nodeContent{data: data}, nil)
	return seen.N, err
}

// decodeContent decodes the content of a read.
func (v *Value[T]) decodeContent(c nodeContent, err error) (s Seen[T], _ error) {
	if err != nil {
		return s, err
	}
	n, err := v.codec.Decode(c.data)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrBadValue, err)
	}
	return newSeen(n, c.stat), nil
}

func newSeen[T any](n T, stat framework.Stat) Seen[T] {
	return Seen[T]{n, stat.Version, stat.Mzxid, stat.Modified()}
}
