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

// Count is a number in a node that everybody may read and set: how many leases a semaphore has, see
// [WithSharedCount]. It has no state but its configuration. Safe for concurrent use. Corresponds to Curator's
// SharedCount, and shares the node with it: a persistent node of four bytes, big-endian. Unlike there nothing
// is read until it is asked for.
type Count struct {
	client *framework.Client
	path   string
	err    error // of NewCount: every method returns it
}

// CountValue is what a [Count] was at one moment.
type CountValue struct {
	N       int32
	Version int32 // counts the changes of the node since it was made
	// Mzxid is the transaction of the last change: it grows from change to change, also when the node is made
	// anew.
	Mzxid   int64
	Changed time.Time // the time of it, by the server's clock
}

// NewCount makes the count at path. It sends nothing. A mistake in the arguments (a nil client, a path that
// is none or the root) is reported by every method, before anything is sent.
func NewCount(client *framework.Client, path string) *Count {
	return &Count{client, path, queue.Check(client, path)}
}

// Path returns the count's path.
func (c *Count) Path() string { return c.path }

// Get reads the count. Errors: ErrNoNode if it was never set; ErrBadCount if the node contains something
// else; those of every operation.
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

// Set sets the count to n, whatever it was, and makes the node if there is none, with missing parents as
// containers. Two at a time leave one of the numbers; [Count.CompareAndSet] is for numbers that depend on the
// one before.
func (c *Count) Set(ctx context.Context, n int32) error {
	err := queue.Ready(ctx, c.client, c.err)
	if err == nil {
		_, err = c.client.Create().CreatingParentContainersIfNeeded().OrSetData().ForPath(ctx, c.path, encode(n))
	}
	return c.wrap("set", err)
}

// CreateIfMissing makes the count's node with n in it, and missing parents as containers, if there is none,
// and returns what the count is then. Of several at a time one makes it, and all return that one's number.
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

// CompareAndSet sets the count to n if nobody has changed it since it was seen, and returns what it is then.
// ErrBadVersion otherwise, also when the node was deleted and made anew since, and for a CountValue that was
// never seen: [Count.CreateIfMissing] is for a count that is not there. ErrNoNode if it is not there any
// more. An ErrConnectionLoss says that it may have been set or not: Get again.
//
// The servers compare nothing but versions, which begin anew with the node. So it looks first, with a sync in
// the same flight, whether the node is the one that was seen. If in between somebody deletes the count and
// makes it anew up to the same version, it is overwritten: do not delete a count that is used so.
func (c *Count) CompareAndSet(ctx context.Context, seen CountValue, n int32) (v CountValue, err error) {
	defer func() { err = c.wrap("compare and set", err) }()
	if err := queue.Ready(ctx, c.client, c.err); err != nil {
		return CountValue{}, err
	}
	switch {
	case seen.Version == -1: // the version overflows to it after four thousand million changes
		return CountValue{}, fmt.Errorf("%w: version -1 stands for any version; use Set", framework.ErrBadArguments)
	case seen.Mzxid == 0:
		return CountValue{}, fmt.Errorf("%w: the value given was never read: call Get first, or "+
			"CreateIfMissing",
			framework.ErrBadVersion)
	}
	unchanged := func(ctx context.Context) error { return c.unchanged(ctx, seen) }
	if err := c.client.Retry(ctx, unchanged); err != nil {
		return CountValue{}, err
	}
	stat, err := c.client.SetData().WithVersion(seen.Version).ForPath(ctx, c.path, encode(n))
	return value(encode(n), stat, err)
}

// unchanged returns nil if the node is as it was seen.
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
		return fmt.Errorf("%w: the count was changed or recreated since it was read", framework.ErrBadVersion)
	}
	return nil
}

// Watch yields the count as it is, and again after each change, until the loop is left or ctx ends. Of
// changes in quick succession only the last is certain to be seen. It goes on through lost connections and
// lost sessions, and while there is no node it waits for one. It runs on the caller's goroutine. It costs one
// read per change, and one in about a session timeout to be safe from events that get lost.
//
// An error is the last thing that is yielded: ctx's, ErrClosed, ErrNoAuth and the like; ErrSessionLost for
// the view of a session that has ended. But a node that contains no number yields ErrBadCount, and Watch goes
// on.
func (c *Count) Watch(ctx context.Context) iter.Seq2[CountValue, error] {
	return func(yield func(CountValue, error) bool) {
		if err := c.watch(ctx, yield); err != nil {
			yield(CountValue{}, c.wrap("watch", err))
		}
	}
}

// watch returns nil when the loop was left.
func (c *Count) watch(ctx context.Context, yield func(CountValue, error) bool) error {
	if err := queue.Ready(ctx, c.client, c.err); err != nil {
		return err
	}
	last := int64(-1) // mzxid of what was yielded
	// The watch of the last read. It is stopped after the next one is armed, which costs no request.
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
				continue // made in between
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
			again := func() (framework.Event, bool) { return framework.Event{}, true } // the next read tells
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

// make makes the node with n in it; one that is there already is fine.
func (c *Count) make(ctx context.Context, view *framework.Client, n int32) error {
	// One attempt at a time, so that a repeat that meets the node of the one before takes it for done.
	create := view.Create().CreatingParentContainersIfNeeded().InBackground()
	return view.Retry(ctx, func(ctx context.Context) error {
		_, err := queue.Result(create.ForPath(ctx, c.path, encode(n)))
		return queue.Unless(err, framework.ErrNodeExists)
	})
}

func (c *Count) wrap(verb string, err error) error { return queue.Wrap("count", c.path, verb, err) }

func encode(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// decode reads four bytes; like Curator it does not mind more.
func decode(data []byte) (int32, error) {
	if len(data) < 4 {
		return 0, fmt.Errorf("%w (its node has %d bytes)", ErrBadCount, len(data))
	}
	return int32(binary.BigEndian.Uint32(data)), nil
}
