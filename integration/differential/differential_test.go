package differential

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/internal/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// workers is the number of pairs of servers. A history has its own pair, so that zxids can be compared.
const workers = 3

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	value := os.Getenv("CURATOR_DIFFERENTIAL_" + name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(value, 0, 64)
	require.NoError(t, err, "CURATOR_DIFFERENTIAL_%s", name)
	return n
}

func startPair(t testing.TB, reap time.Duration) Pair {
	t.Helper()
	real := startReal(t, reap)
	left, err := NewHost(real)
	require.NoError(t, err)
	right, err := NewHost(startInProcess(t, reap, profileOf(t, real.node.Version())))
	require.NoError(t, err)
	return Pair{left, right}
}

// explain shrinks a difference and prints the result. It may be called on any goroutine.
func explain(t *testing.T, pair Pair, seed string, ops []Op, difference string) {
	t.Helper()
	again, err := pair.Difference(ops)
	if err != nil || again == "" {
		t.Errorf("%s: a difference that does not come again (%v):\n%s\n\n%s", seed, err, difference, Script(ops))
		return
	}
	small := Shrink(ops, time.Now().Add(time.Minute), func(candidate []Op) bool {
		if err != nil {
			return false
		}
		var difference string
		difference, err = pair.Difference(candidate)
		return difference != ""
	})
	if err == nil {
		var last string
		last, err = pair.Difference(small)
		difference += "\n\nThe shortest history found in which they differ:\n\n" + Script(small) + "\n" + last
	}
	t.Errorf("%s: servers differ in a history of %d operations, at\n%s", seed, len(ops), difference)
	if err != nil {
		t.Errorf("%s: while shrinking: %v", seed, err)
	}
}

// enough is the number of differences that are explained before a test gives up.
const enough = 5

func sameInAll(t *testing.T, count uint64, history func(seed uint64) []Op) {
	today := uint64(time.Now().Unix()) / (24 * 60 * 60)
	first := setting(t, "SEED", today*10_000)
	pairs := make([]Pair, workers)
	for i := range pairs {
		pairs[i] = startPair(t, never)
	}
	var next, operations, differences atomic.Uint64
	began := time.Now()
	var wg sync.WaitGroup
	for _, pair := range pairs {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < count && differences.Load() < enough; i = next.Add(1) - 1 {
				ops := history(first + i)
				operations.Add(uint64(len(ops)))
				difference, err := pair.Difference(ops)
				if err != nil {
					t.Errorf("seed %d: %v\n%s", first+i, err, Script(ops))
					return
				}
				if difference != "" {
					differences.Add(1)
					explain(t, pair, fmt.Sprintf("seed %d", first+i), ops, difference)
				}
			}
			if err := pair.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	kit.Figure(t, "%d random histories of %d operations, seeds from %d, on zktest and %s: %d differ, in %v",
		min(next.Load(), count), operations.Load(),
		first, pairs[0].Left.system.Name(), differences.Load(), took.Round(100*time.Millisecond))
}

func TestRandomHistoriesGiveTheSame(t *testing.T) {
	sameInAll(t, setting(t, "COUNT", 4_000), Random)
}

func TestRandomHistoriesWithExpiriesGiveTheSame(t *testing.T) {
	sameInAll(t, max(setting(t, "COUNT", 10_000)/100, 1), RandomExpiry)
}
