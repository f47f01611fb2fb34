package recipes

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/assignment"
)

// sharers are the members of a group and what each has. A test fails if two have one item, or if a token does not
// grow.
type sharers struct {
	t *testing.T

	mu     sync.Mutex
	has    map[string]assignment.Item
	by     map[string]string
	tokens map[string]int64
}

func newSharers(t *testing.T) *sharers {
	return &sharers{t: t, has: map[string]assignment.Item{}, by: map[string]string{}, tokens: map[string]int64{}}
}

// join runs a member until leave is called, or the test ends.
func (s *sharers) join(client *framework.Client, id string, items []string) (leave func()) {
	a := assignment.New(client, "/shared", items, assignment.WithID(id))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.ErrorIs(s.t, a.Run(ctx, func(ctx context.Context, item assignment.Item) error {
			s.begins(id, item)
			defer s.ends(item)
			<-ctx.Done()
			return nil
		}), context.Canceled)
	}()
	leave = func() { cancel(); <-done }
	s.t.Cleanup(leave)
	return leave
}

func (s *sharers) begins(id string, item assignment.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, taken := s.has[item.Name()]; taken && item.Valid() {
		assert.Error(s.t, other.Context().Err(), "%s has %s beside %s", id, item.Name(), s.by[item.Name()])
	}
	assert.Greater(s.t, item.FencingToken(), s.tokens[item.Name()], item.Name())
	s.has[item.Name()], s.by[item.Name()], s.tokens[item.Name()] = item, id, item.FencingToken()
}

func (s *sharers) ends(item assignment.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[item.Name()] == item {
		delete(s.has, item.Name())
		delete(s.by, item.Name())
	}
}

// soon waits until each of the members has so many items, and nobody else has any.
func (s *sharers) soon(want map[string]int) {
	s.t.Helper()
	kit.Soon(s.t, fmt.Sprint("they have ", want), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		has := map[string]int{}
		for name, item := range s.has {
			if item.Valid() {
				has[s.by[name]]++
			}
		}
		return fmt.Sprint(has) == fmt.Sprint(want)
	})
}

func some(n int) (items []string) {
	for i := range n {
		items = append(items, fmt.Sprint("item-", i))
	}
	return items
}

// An item's lock is Curator's mutex: what a Java process has nobody else has, and the item is taken when it is free.
func TestJavaHasAnItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := kit.Context(t)
	theirs, err := w.peer.Mutex(ctx, "item", "/shared/items/item-0")
	require.NoError(t, err)
	_, err = theirs.Acquire(ctx, kit.Patience)
	require.NoError(t, err)
	s := newSharers(t)
	leave := s.join(w.client, "a", some(3))
	s.soon(map[string]int{"a": 2})
	w.count(t, "/shared/items/item-0", 2)
	require.NoError(t, theirs.Release(ctx))
	s.soon(map[string]int{"a": 3})
	leave()
	_, err = theirs.Acquire(ctx, kit.Patience)
	require.NoError(t, err)
	require.NoError(t, theirs.Release(ctx))
	w.count(t, "/shared/members", 0)
}
