package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Simple is a queue of plain bytes, first in, first out. An item is off the queue when it has been returned:
// at most once. Make one and share it. Safe for concurrent use.
//
// Corresponds to Curator's SimpleDistributedQueue, and to the queue recipe that comes with ZooKeeper, and
// shares the queue with them.
type Simple struct {
	itemDirectory

	mu       sync.Mutex
	names    []string  // of the last list, without those that were taken, in order; guarded by mu
	listedAt time.Time // guarded by mu
}

// NewSimple makes the queue at path, as [New] does.
func NewSimple(client *framework.Client, path string) *Simple {
	return &Simple{itemDirectory: newItemDirectory(client, path)}
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
		item, err = s.peekFirst(ctx)
	}
	return item, wrapError(s.path, "peek", err)
}

// Poll takes the first item off the queue; ErrEmpty if there is none. One list of the queue serves the calls of Poll and
// Take in the next second. An item is taken by one caller, also when replies are lost. If it cannot be known whether it
// was taken off, as the package's documentation says, the error matches ErrOutcomeUnknown, and the item is returned with
// it. Corresponds to Curator's poll and remove.
func (s *Simple) Poll(ctx context.Context) (item []byte, err error) {
	if err = s.checkReady(ctx); err == nil {
		item, err = s.takeFirst(ctx, s.listNames)
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
		item, err := s.takeFirst(ctx, list.listAndWatch)
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

// peekFirst reads the first item that exists.
func (s *Simple) peekFirst(ctx context.Context) ([]byte, error) {
	for {
		names, err := s.listNames(ctx)
		if err != nil {
			return nil, err
		}
		names = simpleItems(names)
		for _, name := range names {
			item, err := s.readItem(ctx, name, false)
			if !isUnavailable(err) {
				return item, err
			}
		}
		if len(names) == 0 {
			return nil, ErrEmpty
		}
	}
}

// takeFirst takes the first item off the queue. The first item of the last list that can be taken is the first of the
// queue: those before it were taken, and later items have larger numbers. The numbers begin again if the queue's node is
// deleted and recreated, so a list counts for listTime only.
func (s *Simple) takeFirst(ctx context.Context, list func(context.Context) ([]string, error)) ([]byte, error) {
	for {
		name, found := s.firstName()
		if !found {
			names, err := list(ctx)
			if err != nil {
				return nil, err
			}
			if name, found = s.replaceNames(names); !found {
				return nil, ErrEmpty
			}
		}
		item, err := s.readItem(ctx, name, true)
		if err == nil || isUnavailable(err) || errors.Is(err, framework.ErrOutcomeUnknown) {
			s.removeName(name, errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrOutcomeUnknown))
		}
		if !isUnavailable(err) {
			return item, err
		}
	}
}

const listTime = time.Second

// firstName returns the first item of the last list, unless that is too old.
func (s *Simple) firstName() (name string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) == 0 || time.Since(s.listedAt) > listTime {
		return "", false
	}
	return s.names[0], true
}

// replaceNames replaces the list, and returns its first item.
func (s *Simple) replaceNames(names []string) (first string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names, s.listedAt = simpleItems(names), time.Now()
	if len(s.names) == 0 {
		return "", false
	}
	return s.names[0], true
}

// removeName removes a name from the list, if it is still the first: another call may have removed it. If the item may
// still be in the queue, because it was changed or the outcome is unknown, the list is dropped.
func (s *Simple) removeName(name string, mayBeThere bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.names) == 0 || s.names[0] != name:
	case mayBeThere:
		s.names = nil
	default:
		s.names = s.names[1:]
	}
}

// simpleItems returns the names of items, sorted.
func simpleItems(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, simplePrefix) })
	slices.Sort(names)
	return names
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
