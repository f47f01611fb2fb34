//go:build mutants

package sim

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/internal/mutant"
)

var (
	most    = flag.Uint64("most", 0, "how many seeds a deliberate bug may survive; 0: what its row says")
	replays = flag.Int("replays", 10, "how often the seed that finds one is played again")
	bugs    = flag.String("bugs", "", "only the deliberate bugs with this in their name")
)

func setMutant(_ *testing.T, name string) { mutant.Set(name) }

// TestMutants switches deliberate bugs on, one after the other: the simulation must find each within its number of seeds. A simulation that finds
// none proves nothing.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		if !strings.Contains(m.bug, *bugs) {
			continue
		}
		t.Run(strings.ReplaceAll(m.bug, " ", "-"), func(t *testing.T) {
			mutant.Set(m.bug)
			defer mutant.Set("")
			n := m.within
			if *most > 0 {
				n = *most
			}
			setWorks(m.works)
			defer setWorks(*workFlag)
			runs, found := hunt(t, *from, n, 0, true)
			if assert.NotNil(t, found, "%q survives %d schedules", m.bug, runs) {
				again := 0
				for range *replays {
					if r := play(t, NewPlan(found.Plan.Seed, works()...)); len(r.Violations) > 0 {
						again++
					}
				}
				t.Logf("found after %d schedules, by seed %d, and in %d of %d replays of it: %s", runs, found.Plan.Seed, again, *replays, found.Violations[0])
			}
		})
	}
}

// mutants are the deliberate bugs, the works in which to look for them (empty: as the seeds say), and within how many seeds they must be found.
var mutants = []struct {
	bug    string
	works  string
	within uint64
}{
	{"no own watch while holding", "mutex", 500},
	{"no own watch while waiting", "mutex", 1000},
	{"a member's answer is the leader's", "mutex", 500},
	{"extended after a lapse", "mutex", 500},
	{"time counted from the disconnect", "mutex", 500},
	{"the library's last zxid", "counter", 500},
	{"no epoch check", "", 500},
	{"watches before credentials", "", 500},
	{"exist watch on a present node", "watches", 1000},
	{"no list in a read-write lock", "rwlock", 500},
	{"the read node's token", "rwlock", 500},
	{"unprotected create", "mutex", 500},
	{"search without a write", "mutex", 1000},
	{"clean-up with the caller's context", "mutex", 500},
	{"deleted before it ends", "mutex", 500},
	{"no fence", "fluent", 3000},
	{"repeated after an unknown outcome", "transactions", 500},
	{"refusal of a repeat believed", "fluent", 500},
	{"watches not armed again", "watches", 500},
	{"shortcut after a reconnect", "mutex", 3000},
}
