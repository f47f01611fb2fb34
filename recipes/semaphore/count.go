package semaphore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Count is a number kept in a node, for example the limit of a semaphore, see [WithSharedCount]. It has no
// state but its configuration. Safe for concurrent use. Corresponds to Curator's SharedCount, and shares the
// node with it: a persistent node of four bytes, big-endian. Unlike SharedCount it keeps no copy: each Get
// reads the node.
type Count struct {
	client *framework.Client
	path   string
	err    error // the mistake in NewCount's arguments: every method returns it
}

// CountValue is the value of a [Count] at one moment.
type CountValue struct {
	N       int32
	Version int32 // counts the changes of the node since it was made
	// Mzxid is the transaction of the last change. It grows from change to change, also when the node is
	// deleted and created again.
	Mzxid   int64
	Changed time.Time // when that change was made, by the server's clock
}

// NewCount makes the count at path. It sends nothing. If an argument is wrong (a nil client, an invalid path
// or the root), every method returns that error, before it sends anything.
func NewCount(client *framework.Client, path string) *Count {
	return &Count{client, path, queue.Check(client, path)}
}

// Path returns the count's path.
func (c *Count) Path() string { return c.path }

// Get reads the count. Errors: ErrNoNode if there is no node; ErrBadCount if the node's data are no number;
// those of every operation.
func (c *Count) Get(ctx context.Context) (CountValue, error) {
	v, err := c.get(ctx)
	return v, c.wrap("get", err)
}

func (c *Count) get(ctx context.Context) (CountValue, error) {
	if err := queue.Ready(ctx, c.client, c.err); err != nil {
		return CountValue{}, err
	}
	var stat framework.Stat
	data, err := c.client.GetData().StoringStatIn(&stat).ForPath(ctx, c.path)
	return value(data, stat, err)
}

func value(data []byte, stat framework.Stat, err error) (v CountValue, _ error) {
	if err == nil {
		v.N, err = decode(data)
	}
	if err != nil {
		return CountValue{}, err
	}
	v.Version, v.Mzxid, v.Changed = stat.Version, stat.Mzxid, stat.Modified()
	return v, nil
}

// Set sets the count to n, whatever its value. It creates the node if it is missing, and missing parents as
// containers. Of two concurrent Sets one overwrites the other; if the new number depends on the old one, use
// [Count.CompareAndSet].
func (c *Count) Set(ctx context.Context, n int32) error {
	err := queue.Ready(ctx, c.client, c.err)
	if err == nil {
		_, err = c.client.Create().CreatingParentContainersIfNeeded().OrSetData().ForPath(ctx, c.path, encode(n))
	}
	return c.wrap("set", err)
}

// CreateIfMissing creates the node with the number n if it is missing, and missing parents as containers. It
// returns the value of the count after that. Of several concurrent calls one creates the node, and all return
// its number.
func (c *Count) CreateIfMissing(ctx context.Context, n int32) (CountValue, error) {
	for {
		v, err := c.get(ctx)
		if errors.Is(err, framework.ErrNoNode) {
			if err = c.make(ctx, c.client, n); err == nil {
				continue
			}
		}
		return v, c.wrap("create if missing", err)
	}
}

// CompareAndSet sets the count to n if it is unchanged since seen was read, and returns the new value.
// Errors:
//
//   - ErrBadVersion if the count was changed, or its node deleted and created again, since seen was read.
//     Also if seen is the zero CountValue: for a count that does not exist yet use [Count.CreateIfMissing].
//   - ErrNoNode if the node is gone.
//   - ErrConnectionLoss if it is unknown whether the count was set: Get it again.
//
// A server compares only versions, and those of a new node begin at 0 again. So CompareAndSet first checks,
// with a sync in the same flight, that the node has not changed. One case remains: if after this check
// somebody deletes the node, creates it again, and brings it to the same version, CompareAndSet overwrites
// that. Do not delete a count that is used this way.
func (c *Count) CompareAndSet(ctx context.Context, seen CountValue, n int32) (v CountValue, err error) {
	defer func() { err = c.wrap("compare and set", err) }()
	if err := queue.Ready(ctx, c.client, c.err); err != nil {
		return CountValue{}, err
	}
	switch {
	case seen.Version == -1: // the version overflows and gets here after 2^32-1 changes
		return CountValue{}, fmt.Errorf("%w: version -1 stands for any version; use Set", framework.ErrBadArguments)
	case seen.Mzxid == 0:
		return CountValue{}, fmt.Errorf("%w: the count was never seen: Get it first, or CreateIfMissing",
			framework.ErrBadVersion)
	}
	unchanged := func(ctx context.Context) error { return c.unchanged(ctx, seen) }
	if err := c.client.Retry(ctx, unchanged); err != nil {
		return CountValue{}, err
	}
	stat, err := c.client.SetData().WithVersion(seen.Version).ForPath(ctx, c.path, encode(n))
	return value(encode(n), stat, err)
}

// unchanged returns nil if the node has not changed since seen was read.
func (c *Count) unchanged(ctx context.Context, seen CountValue) error {
	synced := c.client.Sync().InBackground().ForPath(ctx, c.path)
	looking := c.client.CheckExists().InBackground().ForPath(ctx, c.path)
	_, stale := queue.Result(synced)
	now, err := queue.Result(looking)
	switch {
	case stale != nil:
		return stale
	case err != nil:
		return err
	case now.Stat == nil:
		return framework.ErrNoNode
	case now.Stat.Mzxid != seen.Mzxid:
		return fmt.Errorf("%w: it was changed, or made anew, since it was seen", framework.ErrBadVersion)
	}
	return nil
}

// Watch yields the present value of the count, and its value after each change, until the loop breaks or ctx
// ends. Of changes in quick succession only the last is certain to be yielded. Watch goes on through lost
// connections and lost sessions, and waits while there is no node. It runs on the caller's goroutine. It
// costs one read per change, and one read in about a session timeout, since events can get lost.
//
// An error ends the sequence: that of ctx, ErrClosed, ErrNoAuth and the like, or ErrSessionLost if the client
// is the view of a session that has ended. The exception is ErrBadCount: it is yielded when the node's data
// are no number, and Watch goes on.
func (c *Count) Watch(ctx context.Context) iter.Seq2[CountValue, error] {
	return func(yield func(CountValue, error) bool) {
		if err := c.watch(ctx, yield); err != nil {
			yield(CountValue{}, c.wrap("watch", err))
		}
	}
}

// watch returns nil when the caller's loop breaks.
func (c *Count) watch(ctx context.Context, yield func(CountValue, error) bool) error {
	if err := queue.Ready(ctx, c.client, c.err); err != nil {
		return err
	}
	last := int64(-1) // mzxid of what was yielded
	// The watch of the last read. It is stopped only after the next watch is set: then stopping costs no
	// request.
	var armed *framework.Watch
	defer func() { armed.Stop() }()
	for failures := 0; ; {
		var stat framework.Stat
		data, watch, err := c.client.GetData().StoringStatIn(&stat).WithWatch().ForPath(ctx, c.path)
		found := err == nil
		if errors.Is(err, framework.ErrNoNode) {
			var there *framework.Stat
			if there, watch, err = c.client.CheckExists().WithWatch().ForPath(ctx, c.path); there != nil {
				watch.Stop()
				continue // the node was created in between
			}
		}
		armed.Stop()
		armed = watch
		if found && stat.Mzxid != last {
			last = stat.Mzxid
			v, bad := value(data, stat, nil)
			if !yield(v, c.wrap("watch", bad)) {
				return nil
			}
		}
		switch {
		case err == nil:
			failures = 0
			again := func() (framework.Event, bool) { return framework.Event{}, true } // read again
			if _, err := queue.Await(ctx, c.client, watch, nil, queue.PerTimeout(c.client), again); err != nil {
				return err
			}
		case ctx.Err() != nil, !queue.Transient(c.client)(err):
			return err
		default:
			failures++
			if err := queue.Backoff(ctx, c.client, failures); err != nil {
				return err
			}
		}
	}
}

// make creates the node with the number n; it is no error if the node exists already.
func (c *Count) make(ctx context.Context, view *framework.Client, n int32) error {
	// Retry sees each attempt: if one attempt created the node and its reply was lost, the next finds the
	// node, which is success.
	create := view.Create().CreatingParentContainersIfNeeded().InBackground()
	return view.Retry(ctx, func(ctx context.Context) error {
		_, err := queue.Result(create.ForPath(ctx, c.path, encode(n)))
		return queue.Unless(err, framework.ErrNodeExists)
	})
}

func (c *Count) wrap(verb string, err error) error { return queue.Wrap("count", c.path, verb, err) }

func encode(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// decode reads four bytes; like Curator it ignores further bytes.
func decode(data []byte) (int32, error) {
	if len(data) < 4 {
		return 0, fmt.Errorf("%w (%d bytes)", ErrBadCount, len(data))
	}
	return int32(binary.BigEndian.Uint32(data)), nil
}
