package histories

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/zktest/chaos"
)

// simulated is an operation as the simulation writes it: chaos's Op, with the simulation's input.
type simulated struct {
	Input struct {
		Client     int
		Kind       string // begins and ends of holds; sets, not, or maybe set
		Token      int64
		From, Made int
	}
	Called, Returned time.Duration
}

// models convert the simulation's operations to the models' inputs.
var models = map[string]func(o simulated) any{
	"mutex": tenureOf, "latch": tenureOf, "selector": tenureOf, "counter": stepOf,
}

func tenureOf(o simulated) any {
	return tenure{begins: o.Input.Kind == "begins", who: o.Input.Client, token: o.Input.Token}
}

func stepOf(o simulated) any {
	// The value is the version: the simulation itself checks that.
	in := o.Input
	s := step{version: in.From, value: in.From, written: in.From + 1, became: in.Made}
	switch in.Kind {
	case "not":
		s.outcome = refused
	case "maybe":
		s.outcome = unknown
	}
	return s
}

// simulate plays seeds and returns the histories of their operations, by name.
func simulate(t *testing.T, from uint64, count int, works ...string) map[string]*history {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "test", "./zktest/simulation", "-count=1", "-timeout=1h", "-run=^TestSim$", "-args",
		"-works="+strings.Join(works, ","), "-histories="+dir,
		fmt.Sprintf("-chaos.from=%d", from), fmt.Sprintf("-chaos.count=%d", count))
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOWORK=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	histories := map[string]*history{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json") // seed-thing
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var ops []simulated
		require.NoError(t, json.Unmarshal(data, &ops))
		histories[name] = historyOf("seed-"+name, thingOf(name), ops)
	}
	return histories
}

func thingOf(name string) string { return name[strings.IndexByte(name, '-')+1:] }

func historyOf(name, thing string, ops []simulated) *history {
	model := exclusive
	if thing == "counter" {
		model = counting
	}
	h := begin(name, model, clock{})
	made := map[int]bool{} // versions of the counter with a known writer
	for _, o := range ops {
		made[o.Input.Made] = made[o.Input.Made] || o.Input.Kind == "sets"
	}
	for _, o := range ops {
		if o.Input.Kind == "maybe" && made[o.Input.Made] {
			// it was not executed, which is possible at any time; porcupine would try all times
			continue
		}
		back := int64(o.Returned)
		if o.Returned == chaos.Never {
			back = never
		}
		h.add(o.Input.Client, int64(o.Called), models[thing](o), nil, back)
	}
	return h
}

// The operations of the simulation's clients under faults, in virtual time, fulfill the models as well.
// CURATOR_TEST_SIMULATED is the number of schedules (by default 50), CURATOR_TEST_SEED the first of them.
func TestSimulatedHistories(t *testing.T) {
	seeds := setting(t, "CURATOR_TEST_SIMULATED", strconv.Atoi, 50)
	from := setting(t, "CURATOR_TEST_SEED", func(s string) (uint64, error) {
		return strconv.ParseUint(s, 10, 64)
	}, 1)
	start, operations := time.Now(), map[string]int{}
	for name, h := range simulate(t, from, seeds, "mutex", "latch", "selector", "counter") {
		h.check(t, nil)
		operations[thingOf(name)] += len(h.ops)
	}
	for thing, n := range operations {
		require.Greater(t, n, 5*seeds, "%s: that is too little to prove anything", thing)
		kit.Cell(t, "Histories that make sense (operations), simulated", thing, "operations", !t.Failed(), n)
	}
	require.Len(t, operations, len(models))
	kit.Figure(t, "histories of %d simulated schedules, from seed %d: %v operations, made and checked in %v",
		seeds, from, operations, time.Since(start).Round(time.Millisecond))
}

// A success that never happened, or a hold that begins in the middle of another, is found.
func TestSimulatedHistoriesCanBeWrong(t *testing.T) {
	// plans with an administrator that deletes locks have no histories of them
	histories, seed := simulate(t, 1, 10, "mutex", "counter"), 1
	for histories[fmt.Sprintf("%d-mutex", seed)] == nil {
		seed++
		require.LessOrEqual(t, seed, 10)
	}
	counter, lock := histories[fmt.Sprintf("%d-counter", seed)], histories[fmt.Sprintf("%d-mutex", seed)]
	require.NotNil(t, counter)
	counter.check(t, nil)
	lock.check(t, nil)
	for i, op := range counter.ops {
		if s := op.Input.(step); s.outcome == done && s.version > 5 {
			counter.ops = slices.Delete(counter.ops, i, i+1)
			break
		}
	}
	flagged(t, counter)
	for i, op := range lock.ops {
		if s := op.Input.(tenure); !s.begins && op.Call > 0 {
			lock.ops[i].Call += int64(time.Hour)
			lock.ops[i].Return += int64(time.Hour)
			break
		}
	}
	flagged(t, lock)
}

// An operation with an unknown outcome may be executed at any later time.
func TestAnUnknownOutcomeStaysPossible(t *testing.T) {
	var o simulated
	o.Input.Kind, o.Called, o.Returned = "maybe", time.Second, chaos.Never
	h := historyOf("unknown", "counter", []simulated{o})
	require.Len(t, h.ops, 1)
	assert.Equal(t, int64(never), h.ops[0].Return)
}
