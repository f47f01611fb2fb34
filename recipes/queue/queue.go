package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// Queue is a queue of items, which are bytes. Make one and share it. Safe for concurrent use.
//
// Corresponds to Curator's DistributedQueue, DistributedPriorityQueue, DistributedDelayQueue and
// DistributedIdQueue, and shares the queue with them: see [WithOrder].
type Queue struct {
	itemDirectory
	order     Order
	lockPath  string // empty: at most once
	bound     int    // 0: none
	onFailure func(*ItemError) Fate
}

// New makes the queue at path; nothing is sent. If an argument is not valid every method returns an error. path must
// not be the root, nor the root of a namespace: the marks are next to it.
func New(client *framework.Client, path string, opts ...Option) *Queue {
	q := &Queue{itemDirectory: newItemDirectory(client, path)}
	if q.err == nil {
		q.err = line.Configure(client, path, q, opts)
	}
	return q
}

// Path returns the queue's path.
func (q *Queue) Path() string { return q.path }

// Option configures [New]. If one is given several times the last counts.
type Option func(*Queue) error

// WithOrder sets the order of the items. Default [FIFO].
func WithOrder(o Order) Option {
	return func(q *Queue) error {
		if o < FIFO || o > ByID {
			return fmt.Errorf("%w WithOrder: there is no order %d", framework.ErrInvalidOption, o)
		}
		q.order = o
		return nil
	}
}

// WithLockPath has consumers lock each item, with a node in the directory at path, while they handle it, and
// take it off the queue after that: at least once. All consumers of a queue must agree on it. Producers
// need none. Default: items are taken off before they are handled, at most once.
func WithLockPath(path string) Option {
	return func(q *Queue) error {
		if err := line.CheckArguments(q.client, path); err != nil {
			return err
		}
		if path == q.path {
			return fmt.Errorf("%w WithLockPath: it is the queue's own path", framework.ErrInvalidOption)
		}
		q.lockPath = path
		return nil
	}
}

// WithBound has Put wait while there are n items or more. A node with several items counts as one. Producers
// that put at the same time may each put one above the bound. Costs one read per Put. Default: no bound.
func WithBound(n int) Option {
	return func(q *Queue) error {
		if n < 1 {
			return fmt.Errorf("%w WithBound: %d items", framework.ErrInvalidOption, n)
		}
		q.bound = n
		return nil
	}
}

// OnFailure has f decide about an item that was not handled. f is called on Consume's goroutine. Default: with
// [WithLockPath] an item whose handler failed is put back ([Requeue]); an unreadable item is left where it is ([Skip]).
// All failures are logged.
func OnFailure(f func(*ItemError) Fate) Option {
	return func(q *Queue) error {
		if f == nil {
			return fmt.Errorf("%w OnFailure: the function is nil; leave the option out", framework.ErrInvalidOption)
		}
		q.onFailure = f
		return nil
	}
}

// Fate is the decision about an item that was not handled. Without [WithLockPath] an item whose handler has failed is
// off the queue already, whatever the fate.
type Fate int8

const (
	// Requeue puts it at the end, as a new item with the same data, and the same priority, due time or id. An
	// unreadable item is left where it is.
	Requeue Fate = iota
	// Skip leaves it where it is. This call of Consume does not try it again; others may.
	Skip
	// Delete takes it off the queue.
	Delete
)

// Put puts an item at the end, or where the options say, and makes the queue's node if there is none. With
// [WithBound] it waits while the queue is full; if ctx ends first, the error matches ErrFull.
//
// The item is put once or not at all, also when replies are lost. If that cannot be known, as the package's
// documentation says, the error matches ErrOutcomeUnknown, also when ctx ends while the write is in flight. After any
// other error it was not put: ctx's; ErrTooLarge for an item above the servers' limit of about one MiB;
// ErrBadArguments for an option of another order; ErrNoAuth without CREATE on the queue's node; ErrSequenceExhausted;
// the errors that every operation can return.
//
// If the queue's node was recreated and items were put back into it, as by a restore, its numbers begin at 0 again,
// and a new item would come before the restored ones. The first Put in each session checks that, with one read, and a
// list if there are items. If necessary it raises the numbers, in transactions that make and delete 500 nodes each,
// while ctx allows; that needs DELETE as well.
func (q *Queue) Put(ctx context.Context, item []byte, opts ...PutOption) error {
	return wrapError(q.path, "put", q.putItems(ctx, [][]byte{item}, opts))
}

// PutMany puts several items as one: they share a node, are there together or not at all, and one consumer
// handles them, one after the other. Otherwise like Put; the limit of one MiB is for all together. Without
// items it does nothing. Corresponds to Curator's putMulti.
func (q *Queue) PutMany(ctx context.Context, items [][]byte, opts ...PutOption) error {
	return wrapError(q.path, "put many", q.putItems(ctx, items, opts))
}

func (q *Queue) putItems(ctx context.Context, items [][]byte, opts []PutOption) error {
	if err := q.checkReady(ctx); err != nil || len(items) == 0 {
		return err
	}
	prefix, err := q.order.namePrefix(opts)
	if err != nil {
		return err
	}
	if q.bound > 0 {
		if err := q.awaitRoom(ctx); err != nil {
			return err
		}
	}
	return q.addItem(ctx, prefix, encodeItems(items))
}

func (q *Queue) awaitRoom(ctx context.Context) error {
	node, err := q.client.CheckExists().ForPath(ctx, q.path)
	if err != nil || node == nil || int(node.NumChildren) < q.bound {
		return err
	}
	list := itemLister{dir: &q.itemDirectory}
	defer list.stop()
	for {
		names, err := list.listAndWatch(ctx)
		if err != nil || len(names) < q.bound {
			return err
		}
		if err := list.awaitEvent(ctx, 0, nil); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%w: %w", err, ErrFull)
			}
			return err
		}
	}
}

// Remove takes the items with an id off a queue with [ByID], and returns their number. With [WithLockPath] items that
// a consumer handles at that moment stay. If it cannot be known whether an item was taken off, the error matches
// ErrOutcomeUnknown, and that item is not counted. Corresponds to Curator's remove.
func (q *Queue) Remove(ctx context.Context, id string) (removed int, err error) {
	if err = q.checkReady(ctx); err == nil {
		removed, err = q.removeByID(ctx, escapeID(id))
	}
	return removed, wrapError(q.path, "remove", err)
}

func (q *Queue) removeByID(ctx context.Context, id string) (removed int, _ error) {
	if q.order != ByID {
		return 0, fmt.Errorf("%w: the queue is not ordered ByID", framework.ErrBadArguments)
	}
	names, err := q.client.GetChildren().ForPath(ctx, q.path)
	if err != nil {
		return 0, line.IgnoreError(err, framework.ErrNoNode)
	}
	for _, name := range names {
		if other, _, ok := splitID(name); !ok || other != id {
			continue
		}
		took, err := q.removeItem(ctx, name)
		if took {
			removed++
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func (q *Queue) removeItem(ctx context.Context, name string) (took bool, _ error) {
	if q.lockPath == "" {
		err := q.writers.writeExactlyOnce(ctx, q.deleteOperation(name, -1))
		return err == nil, unlessUnavailable(err)
	}
	lock, _, err := q.lockAndRead(ctx, name, byRetryPolicy)
	if lock == nil {
		return false, unlessUnavailable(err)
	}
	if err != nil {
		lock.releaseAfter(err)
		return false, unlessUnavailable(err)
	}
	err = lock.finishItem(ctx, q.deleteOperation(name, -1))
	return err == nil, unlessUnavailable(err)
}

// itemDirectory is the queue's node, for Queue and Simple.
type itemDirectory struct {
	client  *framework.Client
	path    string
	err     error // of the constructor: every method returns it
	writers *markedWriters

	orderedEpoch *atomic.Int64 // the epoch of the last session that has checked the numbers
}

func newItemDirectory(client *framework.Client, path string) itemDirectory {
	d := itemDirectory{client: client, path: path, err: line.CheckArguments(client, path), orderedEpoch: new(atomic.Int64)}
	if d.err == nil && path == "/" {
		d.err = fmt.Errorf("%w %q: a queue needs a path below the root of a namespace, too",
			framework.ErrInvalidPath, path)
	}
	d.writers = newMarkedWriters(client, d.marksPath())
	return d
}

// marksPath returns the directory of the marks. It is not below the queue's node, where Curator's consumers would find,
// and log, every one of them.
func (d *itemDirectory) marksPath() string { return d.path + "-marks" }

func (d *itemDirectory) checkReady(ctx context.Context) error {
	return line.CheckCall(ctx, d.client, d.err)
}

// addItem makes an item's node, and the queue's if there is none.
func (d *itemDirectory) addItem(ctx context.Context, prefix string, data []byte) (err error) {
	if err := d.ensureOrder(ctx); err != nil {
		return err
	}
	for range 10 {
		err = d.writers.writeExactlyOnce(ctx, d.addOperation(prefix, data))
		switch {
		case err == nil, errors.Is(err, framework.ErrOutcomeUnknown):
			return err
		case errors.Is(err, framework.ErrNodeExists): // an item has the number already
			if err := d.raiseNumbers(ctx); err != nil {
				return err
			}
		case errors.Is(err, framework.ErrNoNode):
			createErr := d.client.Retry(ctx, func(ctx context.Context) error { return createNode(ctx, d.client, d.path) })
			if createErr != nil {
				return mark.NotExecuted(createErr)
			}
		default:
			return err
		}
	}
	return fmt.Errorf("%w: another client deletes the queue's node, or puts items, again and again", err)
}

// addOperation builds the create of an item, compressed if the client compresses.
func (d *itemDirectory) addOperation(prefix string, data []byte) operationBuilder {
	return func(to framework.TransactionOps) []framework.TransactionOp {
		return []framework.TransactionOp{to.Create().WithMode(framework.PersistentSequential).
			ForPath(zkpath.Join(d.path, prefix), data)}
	}
}

// unpackItem returns an item's data as they were put, also if they were not compressed and the client compresses.
func (d *itemDirectory) unpackItem(name string, data []byte, err error) ([]byte, error) {
	data, err = line.UnpackData(d.client, d.itemPath(name), data, err)
	if errors.Is(err, framework.ErrDecompressedTooLarge) {
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return data, err
}

func (d *itemDirectory) deleteOperation(name string, version int32) operationBuilder {
	return func(to framework.TransactionOps) []framework.TransactionOp {
		return []framework.TransactionOp{to.Delete().WithVersion(version).ForPath(d.itemPath(name))}
	}
}

func (d *itemDirectory) itemPath(name string) string { return zkpath.Join(d.path, name) }

// replaceOperations builds the move of an item, with the stored data, to the end.
func (d *itemDirectory) replaceOperations(name string, data []byte) operationBuilder {
	return func(to framework.TransactionOps) []framework.TransactionOp {
		return append(d.deleteOperation(name, -1)(to), to.Create().WithMode(framework.PersistentSequential).Uncompressed().
			ForPath(zkpath.Join(d.path, withoutNumber(name)), data))
	}
}

// createNode tries once to create a persistent directory, with parents as containers. The directory itself is
// persistent because Curator's consumers do not recreate a container that a server has removed. A repeat finds the
// node of an earlier try.
func createNode(ctx context.Context, client *framework.Client, path string) error {
	create := client.Create().CreatingParentContainersIfNeeded().InBackground()
	_, err := line.AwaitResult(create.ForPath(ctx, path, nil))
	return line.IgnoreError(err, framework.ErrNodeExists)
}

// unlessUnavailable returns err, or nil if it means that another client was faster.
func unlessUnavailable(err error) error {
	if isUnavailable(err) {
		return nil
	}
	return err
}

// isUnavailable reports whether an item is gone, or was changed, or another consumer has its lock.
func isUnavailable(err error) bool {
	return !errors.Is(err, framework.ErrOutcomeUnknown) && (errors.Is(err, framework.ErrNoNode) ||
		errors.Is(err, framework.ErrNodeExists) || errors.Is(err, framework.ErrBadVersion))
}

// itemLister lists a directory again and again, and waits for changes in between.
type itemLister struct {
	dir   *itemDirectory
	watch *framework.Watch
}

// listAndWatch lists the directory and watches it for later changes. It creates the directory if there is none.
func (l *itemLister) listAndWatch(ctx context.Context) (names []string, err error) {
	client := l.dir.client
	err = line.RetryThrough(ctx, client, line.Outages, func(ctx context.Context) error {
		for {
			list, watch, err := client.GetChildren().WithWatch().ForPath(ctx, l.dir.path)
			if errors.Is(err, framework.ErrNoNode) {
				if err = createNode(ctx, client, l.dir.path); err == nil {
					continue
				}
			}
			if err != nil {
				return err
			}
			l.watch.Stop() // after the next is armed: so the stop costs no request
			names, l.watch = list, watch
			return nil
		}
	})
	return names, err
}

// hasChanged reports whether the directory has changed since it was listed.
func (l *itemLister) hasChanged() bool {
	select {
	case <-l.watch.C:
		return true
	default:
		return false
	}
}

// awaitEvent waits for a change of the directory or for another event, but not longer than d, if it is not 0, nor than
// about a session timeout, since events can get lost.
func (l *itemLister) awaitEvent(ctx context.Context, d time.Duration, other <-chan framework.Event) error {
	longestWait := line.SessionTimeoutInterval(l.dir.client)()
	timer := time.NewTimer(min(cmp.Or(d, longestWait), longestWait))
	defer timer.Stop()
	select {
	case <-l.watch.C:
	case <-other:
	case <-timer.C:
	case <-ctx.Done():
		return l.dir.client.WaitError(ctx, nil)
	}
	return l.dir.client.Err()
}

func (l *itemLister) stop() { l.watch.Stop() }
