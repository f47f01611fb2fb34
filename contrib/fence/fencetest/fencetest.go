// Package fencetest plays random schedules of holders whose writes come late against a fence: the one of a
// store of this module, or your own.
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

// Run plays schedules against a store, and fails the test at the first late write that got through. The message has
// the schedule's seed: [Play] plays it again.
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

// Catches fails the test unless schedules find late writes in a store whose fence was removed: a test of the
// test.
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

// ErrThrough means that a late write got through.
var ErrThrough = errors.New("a late write got through the fence")

// Report counts the writes of a schedule.
type Report struct {
	Writes  int
	Refused int
	Late    int // writes that began after one with a newer token had been done
}

// write is one write of a holder.
type write struct {
	token int64
	entry string

	before int64 // the largest token that had been written when it began
	meant  int64 // the largest token of all writes begun before it ended
	err    error
}

// Play plays the schedule of a seed with the resource, which must be new. The error matches [ErrThrough] if a late
// write got through; any other error describes a mistake of the fence or the store, such as the refusal of a write
// that was not late, or an error other than a refusal.
func Play(ctx context.Context, store Store, seed uint64, resource string) (Report, error) {
	steps := plan(rand.New(rand.NewPCG(seed, 0)))
	var (
		mu          sync.Mutex
		begun, done int64
		report      Report
	)
	for _, together := range steps {
		var all sync.WaitGroup
		for _, w := range together {
			all.Go(func() {
				mu.Lock()
				w.before, begun = done, max(begun, w.token)
				mu.Unlock()
				err := store.Append(ctx, resource, w.token, w.entry)
				mu.Lock()
				defer mu.Unlock()
				if w.err, w.meant = err, begun; err == nil {
					done = max(done, w.token)
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
		if w.before > w.token {
			report.Late++
		}
		if w.err != nil {
			report.Refused++
		}
		if err := judge(w, log); err != nil {
			return report, fmt.Errorf("%w; the log is %v", err, log)
		}
	}
	return report, inOrder(log, report.Writes-report.Refused)
}

// judge returns an error if the outcome of one write is wrong.
func judge(w *write, log []string) error {
	written := slices.Contains(log, w.entry)
	switch {
	case w.err == nil && w.before > w.token:
		return fmt.Errorf("%w: %s was written after %d", ErrThrough, w.entry, w.before)
	case w.err == nil && !written:
		return fmt.Errorf("%s was written, and is not in the log", w.entry)
	case w.err == nil:
		return nil
	case !errors.Is(w.err, fence.ErrOutdated):
		return fmt.Errorf("%s: %w", w.entry, w.err)
	case written:
		return fmt.Errorf("%s was refused, and is in the log", w.entry)
	case w.meant <= w.token:
		return fmt.Errorf("%s was refused, and nobody had a newer token: %w", w.entry, w.err)
	}
	return nil
}

// inOrder returns an error if the log as a whole is wrong.
func inOrder(log []string, want int) error {
	if len(log) != want {
		return fmt.Errorf("the log has %d entries, and %d were written: %v", len(log), want, log)
	}
	var newest int64
	for _, entry := range log {
		text, _, _ := strings.Cut(entry, ".")
		token, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("the log has %q, which nobody has written", entry)
		}
		if token < newest {
			return fmt.Errorf("%w: %s came after %d; the log is %v", ErrThrough, entry, newest, log)
		}
		newest = token
	}
	return nil
}

// plan draws the steps of a schedule. Each is a group of writes that are made at the same time. Two to four holders
// have the lock one after the other, and write up to three times each. Some writes come any time later, like the
// writes of a paused process.
func plan(r *rand.Rand) (steps [][]*write) {
	token := int64(1 + r.IntN(5))
	var line []*write
	for range 2 + r.IntN(3) {
		for i := range 1 + r.IntN(3) {
			line = append(line, &write{token: token, entry: fmt.Sprintf("%d.%d", token, i)})
		}
		token += int64(1 + r.IntN(3))
	}
	for i := range line {
		if r.IntN(3) == 0 {
			w, to := line[i], i+r.IntN(len(line)-i)
			copy(line[i:to], line[i+1:to+1])
			line[to] = w
		}
	}
	for len(line) > 0 {
		n := min(len(line), 1+r.IntN(3))
		steps = append(steps, line[:n:n])
		line = line[n:]
	}
	return steps
}
