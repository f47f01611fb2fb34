package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/go-curator/curator/internal/plain"
)

// Source is any kind of cache: *Cache, *PathChildren or *Single.
type Source interface {
	lookup(key string) (Node, bool)
	entries() iter.Seq2[string, Node]
	nonNilEngine() *engine
	Len() int
	WaitSynced(ctx context.Context) error
	Events(ctx context.Context) iter.Seq2[Event, error]
	Close() error
}

func (c *cacheHandle) lookup(path string) (Node, bool)   { return c.nonNilEngine().store.get(path) }
func (c *cacheHandle) entries() iter.Seq2[string, Node]  { return c.nonNilEngine().store.allNodes() }
func (c *PathChildren) lookup(name string) (Node, bool)  { return c.Get(name) }
func (c *PathChildren) entries() iter.Seq2[string, Node] { return c.All() }

// Typed is a view of a cache with decoded data. It stores nothing: it decodes data when they are read. Safe for
// concurrent use if its codec is. Corresponds to Curator's CachedModeledFramework.
type Typed[T any] struct {
	source Source
	decode func([]byte) (T, error)
}

// Entry is a node with its data decoded.
type Entry[T any] struct {
	Node
	Value T
	Err   error // why the data could not be decoded; then Value is the zero value
}

// TypedEvent is an event with its nodes decoded.
type TypedEvent[T any] struct {
	Event
	// Old and New are Event.Old and Event.New, decoded.
	Old, New *Entry[T]
}

// NewTyped makes a view of a cache through a codec, such as [JSON]. Data that cannot be decoded appear as an
// entry with Err; they never end a stream or an iteration.
func NewTyped[T any](source Source, decode func([]byte) (T, error)) *Typed[T] {
	return &Typed[T]{source, decode}
}

// JSON is a codec for [NewTyped]: NewTyped(c, cache.JSON[Limits]).
func JSON[T any](data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

// Get is the cache's Get, decoded: by path, or by name for a PathChildren.
func (t *Typed[T]) Get(key string) (Entry[T], bool) {
	n, ok := t.source.lookup(key)
	if !ok {
		return Entry[T]{}, false
	}
	return t.decodeEntry(n), true
}

// All is the cache's All, decoded.
func (t *Typed[T]) All() iter.Seq2[string, Entry[T]] {
	return func(yield func(string, Entry[T]) bool) {
		for key, n := range t.source.entries() {
			if !yield(key, t.decodeEntry(n)) {
				return
			}
		}
	}
}

// Len is the cache's Len.
func (t *Typed[T]) Len() int { return t.source.Len() }

// WaitSynced is the cache's WaitSynced.
func (t *Typed[T]) WaitSynced(ctx context.Context) error { return t.source.WaitSynced(ctx) }

// Close closes the cache.
func (t *Typed[T]) Close() error { return t.source.Close() }

// Events is the cache's Events, decoded.
func (t *Typed[T]) Events(ctx context.Context) iter.Seq2[TypedEvent[T], error] {
	return func(yield func(TypedEvent[T], error) bool) {
		for ev, err := range t.source.Events(ctx) {
			if !yield(TypedEvent[T]{Event: ev, Old: t.entryOrNil(ev.Old), New: t.entryOrNil(ev.New)}, err) {
				return
			}
		}
	}
}

func (t *Typed[T]) entryOrNil(n *Node) *Entry[T] {
	if n == nil {
		return nil
	}
	entry := t.decodeEntry(*n)
	return &entry
}

func (t *Typed[T]) decodeEntry(n Node) Entry[T] {
	v, err := t.decode(n.Data)
	if err != nil {
		return Entry[T]{Node: n, Err: fmt.Errorf("decode %s: %w", plain.Text(n.Path), plain.Error(err))}
	}
	return Entry[T]{Node: n, Value: v}
}
