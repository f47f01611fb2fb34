package porcupine

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	checker "github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest/chaos"
)

// op returns an operation between two times.
func op(who string, called, returned time.Duration, input, output any) chaos.Op {
	return chaos.Op{Process: who, Called: called, Returned: returned, Input: input, Output: output}
}

// Each rule of the models, fulfilled and broken.
func TestModels(t *testing.T) {
	a, b := "a", "b"
	for name, c := range map[string]struct {
		model checker.Model
		ops   []chaos.Op
		right bool
	}{
		"one after the other": {Lock(), []chaos.Op{op(a, 0, 1, Acquire{By: a, Token: 1}, nil),
			op(b, 0, 3, Acquire{By: b, Token: 2}, nil), op(a, 2, 4, Release{By: a, Token: 1}, nil)}, true},
		"two at a time": {Lock(), []chaos.Op{op(a, 0, 1, Acquire{By: a, Token: 1}, nil),
			op(b, 0, 3, Acquire{By: b, Token: 2}, nil), op(a, 4, 5, Release{By: a, Token: 1}, nil)}, false},
		"an old token": {Lock(), []chaos.Op{op(a, 0, 1, Acquire{By: a, Token: 2}, nil),
			op(a, 2, 3, Release{By: a, Token: 2}, nil), op(b, 4, 5, Acquire{By: b, Token: 1}, nil)}, false},
		"two leases of two": {Semaphore(2), []chaos.Op{op(a, 0, 1, Acquire{By: a}, nil),
			op(b, 0, 1, Acquire{By: b}, nil)}, true},
		"three leases of two": {Semaphore(2), []chaos.Op{op(a, 0, 1, Acquire{By: a}, nil),
			op(b, 0, 1, Acquire{By: b}, nil), op(b, 2, 3, Acquire{By: b}, nil)}, false},
		"readers beside one another": {RWLock(), []chaos.Op{op(a, 0, 1, Acquire{By: a, Shared: true}, nil),
			op(b, 0, 1, Acquire{By: b, Shared: true}, nil), op(a, 2, 3, Release{By: a, Shared: true}, nil)}, true},
		"a writer beside a reader": {RWLock(), []chaos.Op{op(a, 0, 1, Acquire{By: a, Shared: true}, nil),
			op(b, 2, 3, Acquire{By: b}, nil), op(a, 4, 5, Release{By: a, Shared: true}, nil)}, false},
		"a reader beside a writer": {RWLock(), []chaos.Op{op(a, 0, 1, Acquire{By: a}, nil),
			op(b, 2, 3, Acquire{By: b, Shared: true}, nil), op(a, 4, 5, Release{By: a}, nil)}, false},
		"a writer after a writer": {RWLock(), []chaos.Op{op(a, 0, 1, Acquire{By: a, Token: 1}, nil),
			op(a, 2, 3, Release{By: a, Token: 1}, nil), op(b, 2, 4, Acquire{By: b, Token: 2}, nil)}, true},
		"sums": {Counter(), []chaos.Op{op(a, 0, 2, Add{1}, int64(1)), op(b, 1, 3, Add{2}, int64(3)),
			op(a, 4, 5, Read{}, int64(3))}, true},
		"a step that was forgotten": {Counter(), []chaos.Op{op(a, 0, 1, Add{1}, int64(1)),
			op(b, 2, 3, Add{1}, int64(1))}, false},
		"an unknown step, done or not": {Counter(), []chaos.Op{op(a, 0, chaos.Never, Add{1}, nil),
			op(b, 1, 2, Read{}, int64(0)), op(b, 3, 4, Read{}, int64(1))}, true},
		"an unknown step, done twice": {Counter(), []chaos.Op{op(a, 0, chaos.Never, Add{1}, nil),
			op(b, 3, 4, Read{}, int64(2))}, false},
		"first in, first out": {Queue(), []chaos.Op{op(a, 0, 1, Push{"x"}, true), op(a, 2, 3, Push{"y"}, true),
			op(b, 4, 5, Pop{}, "x"), op(b, 6, 7, Pop{}, "y"), op(b, 8, 9, Pop{}, "")}, true},
		"out of order": {Queue(), []chaos.Op{op(a, 0, 1, Push{"x"}, true), op(a, 2, 3, Push{"y"}, true),
			op(b, 4, 5, Pop{}, "y")}, false},
		"popped twice": {Queue(), []chaos.Op{op(a, 0, 1, Push{"x"}, true), op(b, 2, 3, Pop{}, "x"),
			op(a, 2, 3, Pop{}, "x")}, false},
		"another's input": {Queue(), []chaos.Op{op(a, 0, 1, Read{}, nil)}, false},
	} {
		err := Check(c.model)(c.ops)
		if c.right {
			assert.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ErrNotLinearizable, name)
		_, picture, found := strings.Cut(err.Error(), "see ")
		require.True(t, found, "%v", err)
		assert.FileExists(t, picture)
		assert.NoError(t, os.RemoveAll(strings.TrimSuffix(picture, "/history.html")))
	}
}

// The history of a mutex under faults fulfills the model.
func TestAMutexsHistory(t *testing.T) {
	chaos.Test(t, func(w *chaos.World) {
		history := w.History("lock", Check(Lock()))
		for range 3 {
			w.Start("p", func(p *chaos.Process) {
				client, err := framework.New(w.ConnectString(), framework.WithDialer(p.Dial),
					framework.WithSessionTimeout(w.SessionTimeout()))
				require.NoError(w, err)
				defer client.Close()
				m := mutex.New(client, "/lock")
				for p.Context().Err() == nil {
					called := w.Elapsed()
					lock, err := m.Acquire(p.Context())
					if err != nil {
						time.Sleep(time.Second)
						continue
					}
					history.Add(p, called, Acquire{By: p.Name(), Token: lock.FencingToken()}, nil)
					valid := w.Elapsed()
					for range 5 {
						select {
						case <-lock.Context().Done():
						case <-time.After(300 * time.Millisecond):
						}
						if lock.Valid() {
							valid = w.Elapsed()
						}
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					_ = lock.Release(ctx)
					cancel()
					history.Add(p, valid, Release{By: p.Name(), Token: lock.FencingToken()}, nil)
				}
			})
		}
	}, chaos.Config{Count: 30})
}
