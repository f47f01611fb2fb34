package histories

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/internal/sim"
)

// simulated are the models of what the simulation records.
var simulated = map[string]func(op sim.Op) any{
	"mutex": tenureOf, "latch": tenureOf, "selector": tenureOf, "counter": stepOf,
}

func tenureOf(op sim.Op) any {
	return tenure{begins: op.Kind == sim.Begins, who: op.Client, token: op.Token}
}

func stepOf(op sim.Op) any {
	// The value is the version: the simulation sees to that itself.
	s := step{version: op.From, value: op.From, written: op.From + 1, became: op.Made}
	switch op.Kind {
	case sim.SetsNot:
		s.outcome = refused
	case sim.SetsMaybe:
		s.outcome = unknown
	}
	return s
}

// simulate plays a plan and returns the histories of what was done in it.
func simulate(t *testing.T, plan *sim.Plan) map[string]*history {
	t.Helper()
	plan.Recording = true
	var r *sim.Result
	synctest.Test(t, func(*testing.T) { r = sim.Run(plan) })
	require.Empty(t, r.Violations, "%v", plan)
	histories := map[string]*history{}
	made := map[int]bool{} // versions of the counter whose maker is known
	for _, op := range r.History {
		made[op.Made] = made[op.Made] || op.Kind == sim.Sets
	}
	for _, op := range r.History {
		if op.Kind == sim.SetsMaybe && made[op.Made] {
			// it was not done, and an operation that was not done makes sense at any time; porcupine would try them
			// all
			continue
		}
		h := histories[op.Thing]
		if h == nil {
			model := exclusive
			if op.Thing == "counter" {
				model = counting
			}
			h = begin("seed-"+strconv.FormatUint(plan.Seed, 10)+"-"+op.Thing, model, clock{})
			histories[op.Thing] = h
		}
		back := int64(op.Back)
		if op.Back == sim.Never {
			back = never
		}
		h.add(op.Client, int64(op.Called), simulated[op.Thing](op), nil, back)
	}
	return histories
}

// What the simulation's clients do through its faults, in virtual time, makes sense as well.
// CURATOR_TEST_SIMULATED is how many of its schedules (50 unless it says otherwise), CURATOR_TEST_SEED the
// first of them.
func TestSimulatedHistories(t *testing.T) {
	seeds := setting(t, "CURATOR_TEST_SIMULATED", strconv.Atoi, 50)
	from := setting(t, "CURATOR_TEST_SEED", func(s string) (uint64, error) {
		return strconv.ParseUint(s, 10, 64)
	}, 1)
	start, operations := time.Now(), map[string]int{}
	for i := range uint64(seeds) {
		for thing, h := range simulate(t, sim.NewPlan(from+i, "mutex", "latch", "selector", "counter")) {
			h.check(t, nil)
			operations[thing] += len(h.ops)
		}
	}
	for thing, n := range operations {
		require.Greater(t, n, 5*seeds, "%s: that is too little to prove anything", thing)
		kit.Cell(t, "Histories that make sense (operations), simulated", thing, "operations", !t.Failed(), n)
	}
	require.Len(t, operations, len(simulated))
	kit.Figure(t, "histories of %d simulated schedules, from seed %d: %v operations, made and checked in %v",
		seeds, from, operations, time.Since(start).Round(time.Millisecond))
}

// A success that nobody has had, or a hold that begins in the middle of another, is found.
func TestSimulatedHistoriesCanBeWrong(t *testing.T) {
	seed := uint64(1)
	// an administrator who takes locks away leaves histories without them
	for sim.NewPlan(seed, "mutex", "counter").Meddling {
		seed++
	}
	histories := simulate(t, sim.NewPlan(seed, "mutex", "counter"))
	counter, lock := histories["counter"], histories["mutex"]
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
