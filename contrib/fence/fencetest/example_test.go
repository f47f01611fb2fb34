package fencetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
)

// table is your own store: it keeps the newest token of each resource beside the data. Without a fence it accepts every
// write.
type table struct {
	fenced bool

	mu     sync.Mutex
	newest map[string]int64
	rows   map[string][]string
}

func (t *table) Append(_ context.Context, resource string, token int64, entry string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if newest := t.newest[resource]; t.fenced && token < newest {
		return &fence.OutdatedError{Resource: resource, Token: token, Newest: newest}
	}
	t.newest[resource] = token
	t.rows[resource] = append(t.rows[resource], entry)
	return nil
}

func (t *table) Log(_ context.Context, resource string) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[resource], nil
}

// A hundred schedules of late writes, with and without a fence. A test calls Run.
func ExamplePlay() {
	for _, fenced := range []bool{true, false} {
		store := &table{fenced: fenced, newest: map[string]int64{}, rows: map[string][]string{}}
		through := false
		for seed := range uint64(100) {
			_, err := fencetest.Play(context.Background(), store, seed, fmt.Sprint("resource ", seed))
			if err != nil && !errors.Is(err, fencetest.ErrThrough) {
				fmt.Println(err)
				return
			}
			through = through || err != nil
		}
		fmt.Printf("fenced: %v, a late write got through: %v\n", fenced, through)
	}
	// Output:
	// fenced: true, a late write got through: false
	// fenced: false, a late write got through: true
}
