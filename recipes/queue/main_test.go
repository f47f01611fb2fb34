package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Shared by the tests of all recipes.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
)

const (
	path     = "/queues/mail"
	lockPath = "/queues/mail-locks"
	markPath = path + "-marks"
)

var background = context.Background()

// modes are a queue without a lock path and one with it.
var modes = map[string][]queue.Option{"at most once": nil, "at least once": {queue.WithLockPath(lockPath)}}

// eachMode runs a test in both modes, in a bubble.
func eachMode(t *testing.T, f func(t *testing.T, s *zktest.Server, opts []queue.Option)) {
	for name, opts := range modes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, zktest.RunT(t), opts) })
		})
	}
}

// handled records the items that consumers have handled, in order.
type handled struct {
	mu    sync.Mutex
	items []string
}

func (h *handled) handle(_ context.Context, item []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.items = append(h.items, string(item))
	return nil
}

// all returns the items so far.
func (h *handled) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.items...)
}

// consuming starts to consume, and returns a function that ends it.
func consuming(t *testing.T, q *queue.Queue, handle queue.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	call := recipetest.Begin(t, func() (struct{}, error) { return struct{}{}, q.Consume(ctx, handle) })
	return func() {
		t.Helper()
		cancel()
		call.End()
		require.ErrorIs(t, call.Err, context.Canceled)
	}
}

func put(t *testing.T, q *queue.Queue, item string, opts ...queue.PutOption) {
	t.Helper()
	require.NoError(t, q.Put(background, []byte(item), opts...))
}

// wait waits until n items are handled, at most for a minute, and a moment more.
func (h *handled) wait(n int) []string {
	for range 6000 {
		if len(h.all()) >= n {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait()
	return h.all()
}

func numbered(n int) (items []string) {
	for i := range n {
		items = append(items, fmt.Sprintf("item %d", i))
	}
	return items
}

// tidy asserts that nothing of the queue is left after a rest.
func tidy(t *testing.T, s *zktest.Server, clients ...*framework.Client) {
	t.Helper()
	time.Sleep(25 * time.Second)
	recipetest.Clean(t, s, path, lockPath, markPath)
	recipetest.Tidy(t, clients...)
}

var errPoison = errors.New("cannot be handled")
