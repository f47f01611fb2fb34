package fencetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
)

// logs is a store in memory whose fence can be missing or wrong.
type logs struct {
	admit func(newest, token int64) bool
	fails error

	mu     sync.Mutex
	newest map[string]int64
	lines  map[string][]string
}

func newLogs(admit func(newest, token int64) bool) *logs {
	return &logs{admit: admit, newest: map[string]int64{}, lines: map[string][]string{}}
}

func (l *logs) Append(_ context.Context, resource string, token int64, entry string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return l.fails
	}
	if !l.admit(l.newest[resource], token) {
		return &fence.OutdatedError{Resource: resource, Token: token, Newest: l.newest[resource]}
	}
	l.newest[resource] = token
	l.lines[resource] = append(l.lines[resource], entry)
	return nil
}

func (l *logs) Log(_ context.Context, resource string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[resource], nil
}

func TestWhatIsFound(t *testing.T) {
	t.Setenv("FENCE_SCHEDULES", "2000")
	fencetest.Run(t, newLogs(func(newest, token int64) bool { return token >= newest }))
	fencetest.Catches(t, newLogs(func(int64, int64) bool { return true }))

	find := func(l *logs) (err error) {
		for seed := range uint64(100) {
			if _, err = fencetest.Play(t.Context(), l, seed, string(rune('a'+seed))); err != nil {
				return err
			}
		}
		return nil
	}
	assert.ErrorContains(t, find(newLogs(func(newest, token int64) bool { return token > newest })), "no write had a newer token")
	broken := newLogs(nil)
	broken.fails = errors.New("no disk")
	assert.ErrorIs(t, find(broken), broken.fails)
}

func TestSchedules(t *testing.T) {
	n, err := fencetest.Schedules()
	require.NoError(t, err)
	assert.Positive(t, n)
	for _, wrong := range []string{"0", "many", "-3"} {
		t.Setenv("FENCE_SCHEDULES", wrong)
		_, err := fencetest.Schedules()
		assert.ErrorContains(t, err, wrong)
	}
}
