//go:build mutants

package sim

import (
	"cmp"
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/internal/sim/mutant"
)

var (
	most    = flag.Uint64("most", 0, "how many seeds a deliberate bug may survive; 0: what its row says")
	replays = flag.Int("replays", 10, "how often the seed that finds one is played again")
	bugs    = flag.String("bugs", "", "only the deliberate bugs with this in their name")
)

func setMutant(_ *testing.T, name string) { mutant.Set(name) }

// TestMutants switches deliberate bugs on, one after the other: the simulation must find each within its
// number of seeds. A simulation that finds none proves nothing.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		if !strings.Contains(m.bug, *bugs) {
			continue
		}
		t.Run(strings.ReplaceAll(m.bug, " ", "-")+"/"+cmp.Or(m.works, "any"), func(t *testing.T) {
			mutant.Set(m.bug)
			defer mutant.Set("")
			n := m.within
			if *most > 0 {
				n = *most
			}
			setWorks(m.works)
			defer setWorks(*workFlag)
			crowd, still = m.crowd, m.still
			defer func() { crowd, still = false, false }()
			runs, found := hunt(t, *from, n, 0, true)
			if assert.NotNil(t, found, "%q survives %d schedules", m.bug, runs) {
				mutant.Set("")
				without := play(t, newPlan(found.Plan.Seed))
				assert.Empty(t, without.Violations, "without the bug")
				mutant.Set(m.bug)
				again := 0
				for range *replays {
					if r := play(t, newPlan(found.Plan.Seed)); len(r.Violations) > 0 {
						again++
					}
				}
				t.Logf("found after %d schedules, by seed %d, and in %d of %d replays of it: %s", runs, found.Plan.Seed, again, *replays, found.Violations[0])
			}
		})
	}
}

// mutants are the deliberate bugs, the works in which to look for them (empty: as the seeds say), and within
// how many seeds they must be found.
var mutants = []struct {
	bug    string
	works  string
	within uint64
	crowd  bool // many contenders in one client, and events that come one by one
	still  bool // nothing takes time
}{
	{bug: "no own watch while holding", works: "mutex", within: 500},
	{bug: "no own watch while waiting", works: "mutex", within: 1000},
	{bug: "a member's answer is the leader's", works: "mutex", within: 500},
	{bug: "time counted from the disconnect", works: "mutex", within: 500},
	{bug: "the library's last zxid", works: "counter", within: 500},
	{bug: "no epoch check", works: "", within: 500},
	{bug: "watches before credentials", works: "", within: 500},
	{bug: "exist watch on a present node", works: "watches", within: 1000},
	{bug: "no list in a read-write lock", works: "rwlock", within: 500},
	{bug: "the read node's token", works: "rwlock", within: 500},
	{bug: "unprotected create", works: "mutex", within: 500},
	{bug: "search without a write", works: "mutex", within: 1000},
	{bug: "clean-up with the caller's context", works: "mutex", within: 500},
	{bug: "deleted before it ends", works: "mutex", within: 500},
	{bug: "no fence", works: "fluent", within: 300},
	{bug: "repeated after an unknown outcome", works: "transactions", within: 500},
	{bug: "refusal of a repeat believed", works: "fluent", within: 500},
	{bug: "watches not armed again", works: "watches", within: 500},
	{bug: "no own watch while holding", works: "latch", within: 500},
	{bug: "extended after a lapse", works: "selector", within: 500},
	{bug: "deleted before it ends", works: "multi", within: 500},
	{bug: "deleted before it ends", works: "selector", within: 100, still: true},
	{bug: "no own watch while holding", works: "semaphore", within: 500},
	{bug: "no epoch check", works: "epochs", within: 500},
	{bug: "search without a write", works: "protected", within: 1000},
	{bug: "one lease too many", works: "semaphore", within: 500},
	{bug: "a guard of another node", works: "mutex", within: 3000},
	{bug: "request to give up not read", works: "revocation", within: 500},
	{bug: "nothing was missed", works: "cache", within: 500},
	{bug: "children of a parent that was not compared", works: "cache", within: 1000},
	{bug: "whatever happens opens the barrier", works: "barrier", within: 1000},
	{bug: "out without the others", works: "double", within: 500},
	{bug: "a refusal that passes is an answer", works: "mutex", within: 200},
	{bug: "a rule that changes settles nothing", works: "mutex", within: 1000},
	{bug: "a lapse is noticed and forgotten", works: "mutex", within: 1000},
	{bug: "the wall clock counts", works: "mutex", within: 100},
	{bug: "heartbeats wait their turn", works: "mutex", within: 500},
	{bug: "shortcut after a reconnect", works: "mutex", within: 300, crowd: true},
	{bug: "the node ahead taken for the first", works: "mutex", within: 500, crowd: true},
	{bug: "the nearest but one taken for the nearest", works: "mutex", within: 500},
}
