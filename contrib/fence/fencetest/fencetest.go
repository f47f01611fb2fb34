// Package fencetest tests a fence, of a store of this module or your own, by random schedules of holders whose writes
// come late.
//
//	fencetest.Run(t, store)
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-curator/curator/contrib/fence"
)

// Store is the store under test: logs, one for each resource, behind the fence.
type Store interface {
	// Append appends an entry to the resource's log, under the fence. The error matches fence.ErrOutdated if
	// the fence has refused it. It is called by several goroutines.
	Append(ctx context.Context, resource string, token int64, entry string) error
	// Log returns the entries in the order of their writes.
	Log(ctx context.Context, resource string) ([]string, error)
}

// defaultSchedules is the number of schedules that a Run plays: seconds for a store in memory.
const defaultSchedules = 300

// Schedules returns the number of schedules that Run plays: 300, or the environment's FENCE_SCHEDULES.
func Schedules() (int, error) {
	text := os.Getenv("FENCE_SCHEDULES")
	if text == "" {
		return defaultSchedules, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("FENCE_SCHEDULES=%q is not a number of schedules", text)
	}
	return n, nil
}

// Run plays schedules against a store, and fails the test at the first late write that the fence has not refused. The
// message has the schedule's seed: [Play] plays it again.
func Run(t testing.TB, store Store) {
	t.Helper()
	n, err := Schedules()
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for i := range n {
		seed := uint64(i)
		report, err := Play(t.Context(), store, seed, fmt.Sprintf("run-%d", seed))
		if err != nil {
			t.Fatalf("schedule %d of %d, seed %d: %v", i+1, n, seed, err)
		}
		late += report.Late
	}
	if late == 0 {
		t.Fatalf("no write of %d schedules was late: nothing was tested", n)
	}
	t.Logf("%d schedules, %d late writes, all of them refused", n, late)
}

// Catches tests the schedules themselves: it fails the test unless they find a late write in a store without a fence.
func Catches(t testing.TB, unfenced Store) {
	t.Helper()
	for seed := range uint64(20) {
		_, err := Play(t.Context(), unfenced, seed, fmt.Sprintf("unfenced-%d", seed))
		if errors.Is(err, ErrThrough) {
			t.Logf("seed %d: %v", seed, err)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("20 schedules without a fence, and no late write got through: the schedules test nothing")
}

// ErrThrough means that the fence has not refused a late write.
var ErrThrough = errors.New("a late write got through the fence")

// Report counts the writes of a schedule.
type Report struct {
	Writes  int
	Refused int
	Late    int // writes that began after a write with a newer token had been executed
}

// write is one write of a holder.
type write struct {
	token int64
	entry string

	newestExecuted int64 // the largest token of the writes that were executed before this one began
	newestBegun    int64 // the largest token of the writes that began before this one ended
	err            error
}

// Play plays the schedule of a seed with a resource that no other schedule has used. The error matches [ErrThrough] if
// the fence has not refused a late write. Any other error describes a mistake of the fence or the store, such as the
// refusal of a write that was not late, or an error that is no refusal.
func Play(ctx context.Context, store Store, seed uint64, resource string) (Report, error) {
	steps := planSteps(rand.New(rand.NewPCG(seed, 0)))
	var (
		mu                          sync.Mutex
		newestBegun, newestExecuted int64 // tokens
		report                      Report
	)
	for _, together := range steps {
		var all sync.WaitGroup
		for _, w := range together {
			all.Go(func() {
				mu.Lock()
				w.newestExecuted, newestBegun = newestExecuted, max(newestBegun, w.token)
				mu.Unlock()
				err := store.Append(ctx, resource, w.token, w.entry)
				mu.Lock()
				defer mu.Unlock()
				if w.err, w.newestBegun = err, newestBegun; err == nil {
					newestExecuted = max(newestExecuted, w.token)
				}
			})
		}
		all.Wait()
	}
	log, err := store.Log(ctx, resource)
	if err != nil {
		return report, err
	}
	for _, w := range slices.Concat(steps...) {
		report.Writes++
		if w.newestExecuted > w.token {
			report.Late++
		}
		if w.err != nil {
			report.Refused++
		}
		if err := checkWrite(w, log); err != nil {
			return report, fmt.Errorf("%w; the log is %v", err, log)
		}
	}
	return report, checkLog(log, report.Writes-report.Refused)
}

// checkWrite returns an error if the outcome of one write is wrong.
func checkWrite(w *write, log []string) error {
	written := slices.Contains(log, w.entry)
	switch {
	case w.err == nil && w.newestExecuted > w.token:
		return fmt.Errorf("%w: %s was written after %d", ErrThrough, w.entry, w.newestExecuted)
	case w.err == nil && !written:
		return fmt.Errorf("%s was written, and is not in the log", w.entry)
	case w.err == nil:
		return nil
	case !errors.Is(w.err, fence.ErrOutdated):
		return fmt.Errorf("%s: %w", w.entry, w.err)
	case written:
		return fmt.Errorf("%s was refused, and is in the log", w.entry)
	case w.newestBegun <= w.token:
		return fmt.Errorf("%s was refused, and no write had a newer token: %w", w.entry, w.err)
	}
	return nil
}

// checkLog returns an error if the number or the order of the log's entries is wrong.
func checkLog(log []string, want int) error {
	if len(log) != want {
		return fmt.Errorf("the log has %d entries, and %d were written: %v", len(log), want, log)
	}
	var newest int64
	for _, entry := range log {
		text, _, _ := strings.Cut(entry, ".")
		token, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("the log has %q, which no holder has written", entry)
		}
		if token < newest {
			return fmt.Errorf("%w: %s came after %d; the log is %v", ErrThrough, entry, newest, log)
		}
		newest = token
	}
	return nil
}

// planSteps returns the steps of a random schedule. Each step is a group of writes that are made at the same time. Two
// to four holders have the lock one after the other, and write up to three times each. Some writes are moved to a later
// step, like the writes of a paused process.
func planSteps(r *rand.Rand) (steps [][]*write) {
	token := int64(1 + r.IntN(5))
	var writes []*write
	for range 2 + r.IntN(3) {
		for i := range 1 + r.IntN(3) {
			writes = append(writes, &write{token: token, entry: fmt.Sprintf("%d.%d", token, i)})
		}
		token += int64(1 + r.IntN(3))
	}
	for i := range writes {
		if r.IntN(3) == 0 {
			w, to := writes[i], i+r.IntN(len(writes)-i)
			copy(writes[i:to], writes[i+1:to+1])
			writes[to] = w
		}
	}
	for len(writes) > 0 {
		n := min(len(writes), 1+r.IntN(3))
		steps = append(steps, writes[:n:n])
		writes = writes[n:]
	}
	return steps
}
