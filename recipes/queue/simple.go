package queue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Simple is a queue of plain bytes, first in, first out. An item is off the queue when it has been returned:
// at most once. Make one and share it. Safe for concurrent use.
//
// Corresponds to Curator's SimpleDistributedQueue, and to the queue recipe that comes with ZooKeeper, and
// shares the queue with them.
type Simple struct{ itemDirectory }

// NewSimple makes the queue at path, as [New] does.
func NewSimple(client *framework.Client, path string) *Simple {
	return &Simple{newItemDirectory(client, path)}
}

// Path returns the queue's path.
func (s *Simple) Path() string { return s.path }

const simplePrefix = "qn-"

// Offer puts an item at the end, and makes the queue's node if there is none. It returns the errors of [Queue.Put]:
// the item is put once or not at all, also when replies are lost.
func (s *Simple) Offer(ctx context.Context, item []byte) error {
	err := s.checkReady(ctx)
	if err == nil {
		if item == nil {
			item = []byte{} // nil would be the client's default data
		}
		err = s.addItem(ctx, simplePrefix, item)
	}
	return wrapError(s.path, "offer", err)
}

// Peek returns the first item and leaves it; ErrEmpty if there is none. Corresponds to Curator's peek and
// element.
func (s *Simple) Peek(ctx context.Context) (item []byte, err error) {
	if err = s.checkReady(ctx); err == nil {
		item, err = s.readFirst(ctx, s.listNames, false)
	}
	return item, wrapError(s.path, "peek", err)
}

// Poll takes the first item off the queue; ErrEmpty if there is none. It is taken by one caller, also when
// replies are lost. If it cannot be known whether it was taken off, as the package's documentation says, the
// error matches ErrOutcomeUnknown, and the item is returned with it. Corresponds to Curator's poll and
// remove.
func (s *Simple) Poll(ctx context.Context) (item []byte, err error) {
	if err = s.checkReady(ctx); err == nil {
		item, err = s.readFirst(ctx, s.listNames, true)
	}
	return item, wrapError(s.path, "poll", err)
}

// Take is Poll that waits for an item until ctx ends, also through lost connections and sessions. Corresponds
// to Curator's take, and to its poll with a timeout.
func (s *Simple) Take(ctx context.Context) (item []byte, err error) {
	if err = s.checkReady(ctx); err == nil {
		item, err = s.awaitFirst(ctx)
	}
	return item, wrapError(s.path, "take", err)
}

func (s *Simple) awaitFirst(ctx context.Context) ([]byte, error) {
	list := itemLister{dir: &s.itemDirectory}
	defer list.stop()
	for {
		item, err := s.readFirst(ctx, list.listAndWatch, true)
		if !errors.Is(err, ErrEmpty) {
			return item, err
		}
		if err := list.awaitEvent(ctx, 0, nil); err != nil {
			return nil, err
		}
	}
}

func (s *Simple) listNames(ctx context.Context) ([]string, error) {
	names, err := s.client.GetChildren().ForPath(ctx, s.path)
	return names, line.IgnoreError(err, framework.ErrNoNode)
}

// readFirst reads the first listed item that still exists, and takes it off the queue if take is set.
func (s *Simple) readFirst(
	ctx context.Context, list func(context.Context) ([]string, error), take bool,
) ([]byte, error) {
	for {
		names, err := list(ctx)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, simplePrefix) })
		slices.Sort(names)
		for _, name := range names {
			item, err := s.readItem(ctx, name, take)
			if !isUnavailable(err) {
				return item, err
			}
		}
		if len(names) == 0 {
			return nil, ErrEmpty
		}
	}
}

func (s *Simple) readItem(ctx context.Context, name string, take bool) ([]byte, error) {
	var stat framework.Stat
	item, err := s.client.GetData().Undecompressed().StoringStatIn(&stat).ForPath(ctx, s.itemPath(name))
	if item, err = s.unpackItem(name, item, err); err == nil && take {
		err = s.writers.writeExactlyOnce(ctx, s.deleteOperation(name, stat.Version))
	}
	if err != nil && !errors.Is(err, framework.ErrOutcomeUnknown) {
		return nil, err
	}
	return item, err
}
