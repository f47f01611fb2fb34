package explore

import (
	"strings"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/mutant"
)

// Test explores a model, and fails with the story if a wrong state is reached. With the race detector it visits only the
// first states. With the build tag mutants, and the source replaced by zktest/simulation/bugs (make explore does that), it
// instead switches on the deliberate bugs, one at a time, and fails if the model does not find one of them.
func Test[S comparable](t *testing.T, m Model[S], bugs ...string) {
	t.Helper()
	switch {
	case withRace && !withBugs:
		r := m.visitStates(firstStates)
		t.Logf("built with the race detector, which finds nothing in a model: the first %d states only", r.States)
		if r.Wrong != "" {
			t.Errorf("%s:\n%s", r.Wrong, strings.Join(r.Story, "\n"))
		}
		return
	case !withBugs:
		begin := time.Now()
		r := m.Explore()
		t.Logf("explored %d states, %d steps in %v", r.States, r.Steps, time.Since(begin).Round(time.Millisecond))
		if r.Wrong != "" {
			t.Errorf("%s:\n%s", r.Wrong, strings.Join(r.Story, "\n"))
		}
		return
	}
	for _, bug := range bugs {
		mutant.Set(bug)
		r := m.Explore()
		mutant.Set("")
		if r.Wrong == "" {
			t.Errorf("the deliberate bug %q is not found in %d states", bug, r.States)
			continue
		}
		t.Logf("found the deliberate bug %q after %d states, in %d steps: %s", bug, r.States, len(r.Story)/2, r.Wrong)
	}
}

// firstStates limits the states visited with the race detector, which makes a state take twenty times as long.
const firstStates = 5000

// Finds explores a model that has a mistake, such as a rule that is weaker by one unit, and fails if no wrong state is
// reached. It does nothing with the build tag mutants or the race detector.
func Finds[S comparable](t *testing.T, m Model[S]) {
	t.Helper()
	if withBugs || withRace {
		return
	}
	r := m.Explore()
	t.Logf("explored %d states, %d steps", r.States, r.Steps)
	if r.Wrong == "" {
		t.Errorf("nothing is wrong in %d states, although something should be", r.States)
	}
}
