package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each goroutine's values come out in its order, and none is lost.
func TestQueueKeepsOrder(t *testing.T) {
	const writers, each = 8, 1000
	q := NewQueue[[2]int]()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				assert.True(t, q.Put([2]int{w, i}))
			}
		})
	}
	next := [writers]int{}
	for taken := 0; taken < writers*each; {
		<-q.More()
		for _, v := range q.Take() {
			assert.Equal(t, next[v[0]], v[1])
			next[v[0]]++
			taken++
		}
	}
	wg.Wait()
	assert.Empty(t, q.Take())
}

func TestQueueClose(t *testing.T) {
	q := NewQueue[string]()
	q.Put("a")
	q.Put("b")
	assert.Equal(t, []string{"a", "b"}, q.Close())
	assert.False(t, q.Put("c"))
	assert.Empty(t, q.Take())
	assert.Empty(t, q.Close())
}

func TestSignalWakesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu      sync.Mutex
			changed Signal
			n       int
			wg      sync.WaitGroup
		)
		changed.Fire() // no goroutine waits
		for range 3 {
			wg.Go(func() {
				for {
					mu.Lock()
					now, c := n, changed.C()
					mu.Unlock()
					if now == 5 {
						return
					}
					<-c
				}
			})
		}
		for range 5 {
			mu.Lock()
			n++
			changed.Fire()
			mu.Unlock()
			synctest.Wait()
		}
		wg.Wait()
	})
}

func TestSignalIsForTheNextChange(t *testing.T) {
	var s Signal
	first := s.C()
	assert.Equal(t, first, s.C())
	s.Fire()
	<-first
	assert.NotEqual(t, first, s.C())
}

func TestEnded(t *testing.T) {
	stop := errors.New("shutting down")
	for _, c := range []struct {
		name  string
		cause error
		text  string
	}{
		{"without a cause", nil, "context canceled"},
		{"with a cause", stop, "context canceled (shutting down)"},
		{"with a cause that says so", fmt.Errorf("no time: %w", context.Canceled), "no time: context canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(c.cause)
			err := Ended(ctx)
			assert.EqualError(t, err, c.text)
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, context.Cause(ctx))
		})
	}
}
