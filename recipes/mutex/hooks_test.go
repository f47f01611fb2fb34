package mutex_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// witness records the hooks' calls, without values that differ from run to run.
type witness struct {
	mu    sync.Mutex
	lines []string
}

func (w *witness) add(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *witness) read() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

// short returns a node's name without the part before "lock-".
func short(node string) string { return node[max(strings.LastIndex(node, "lock-"), 0):] }

type spanKey struct{}

func (w *witness) hooks(name string) framework.Hooks {
	return framework.Hooks{
		Acquire: func(ctx context.Context, a framework.Acquisition) (context.Context, func(error)) {
			w.add("%s: acquire %s %s", name, a.Recipe, a.Path)
			return context.WithValue(ctx, spanKey{}, name+"'s"),
				func(err error) { w.add("%s: acquired: %v", name, err) }
		},
		Queue: func(q framework.Queue) {
			w.add("%s: %s is in line, %d ahead of %d, %d foreign, %d left", name, short(q.Node), q.Ahead, q.Length,
				q.Foreign, q.SequenceLeft)
		},
		Wait: func(ctx context.Context, q framework.Queue) func(error) {
			w.add("%s: waits behind %s with %q, inside %v acquire", name, short(q.Predecessor), q.PredecessorData,
				ctx.Value(spanKey{}))
			return func(err error) { w.add("%s: waited: %v", name, err) }
		},
		Hold: func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
			w.add("%s: holds %s %s, token %v, inside %v acquire", name, h.Recipe, short(h.Path), h.Token > 0,
				ctx.Value(spanKey{}))
			return nil, func(cause error) { w.add("%s: held: %v", name, cause) }
		},
		NodeData: func(context.Context, framework.Acquisition) []byte { return []byte(name) },
	}
}

func TestHooksSeeAContendedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := zktest.RunT(t), &witness{}
		one := mutex.New(newClient(t, s, framework.WithHooks(w.hooks("one"))), path)
		two := mutex.New(newClient(t, s, framework.WithHooks(w.hooks("two"))), path)
		require.NoError(t, s.Create("/locks", nil))
		require.NoError(t, s.Create(path, nil))
		require.NoError(t, s.Create(path+"/a-note", nil))
		require.NoError(t, s.SetSequence(path, 7))

		first := acquire(t, one)
		assert.Equal(t, []string{
			"one: acquire mutex /locks/orders",
			"one: lock-0000000007 is in line, 0 ahead of 1, 1 foreign, 2146435064 left",
			"one: holds mutex lock-0000000007, token true, inside one's acquire",
			"one: acquired: <nil>",
		}, w.read())

		second := waiting(t, background, two)
		assert.Equal(t, []string{
			"two: acquire mutex /locks/orders",
			"two: lock-0000000008 is in line, 1 ahead of 2, 1 foreign, 2146435063 left",
			`two: waits behind lock-0000000007 with "one", inside two's acquire`,
		}, w.read())

		again, err := one.Acquire(first.Context())
		require.NoError(t, err)
		require.NoError(t, again.Release(background))
		assert.Empty(t, w.read(), "entering once more is no acquisition")

		release(t, first)
		lock := second.End().OK()
		got := w.read()
		assert.Equal(t, "one: held: released", got[0],
			"before its node is deleted, so that nobody is seen to hold it beside")
		assert.Equal(t, []string{
			"two: waited: <nil>",
			"two: lock-0000000008 is in line, 0 ahead of 1, 1 foreign, 2146435063 left",
			"two: holds mutex lock-0000000008, token true, inside two's acquire",
			"two: acquired: <nil>",
		}, got[1:])

		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = one.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		got = w.read()
		assert.Equal(t, "one: waited: context deadline exceeded", got[len(got)-2])
		assert.Contains(t, got[len(got)-1], "one: acquired: context deadline exceeded; waiting behind node")

		_, err = one.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		got = w.read()
		assert.Len(t, got, 2)
		assert.Contains(t, got[1], "one: acquired: not acquired")
		release(t, lock)
	})
}

// Hooks replace neither the node data that an option sets nor the data of a revoker.
func TestHooksLeaveNodeDataAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithHooks((&witness{}).hooks("hook")),
			framework.WithDefaultData([]byte("default")))
		for want, opt := range map[string]mutex.Option{"own": mutex.WithNodeData([]byte("own")),
			"": mutex.WithRevocation(), "hook": mutex.WithStaleTry()} {
			lock := acquire(t, mutex.New(c, path, opt))
			data, _, err := s.Get(lock.Path())
			require.NoError(t, err)
			assert.Equal(t, want, string(data))
			release(t, lock)
		}
	})
}
