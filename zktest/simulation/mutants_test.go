//go:build mutants

package simulation_test

import (
	"cmp"
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/internal/mutant"
	"github.com/go-curator/curator/zktest/chaos"
)

var (
	mostFlag = flag.Uint64("most", 0, "how many seeds a deliberate bug may survive; 0: what its row says")
	bugFlag  = flag.String("bugs", "", "only the deliberate bugs with this in their name")
	shorter  = flag.Bool(
		"shorter",
		false,
		"make the schedules that find them shorter, and tell their stories",
	)
)

func setMutant(_ *testing.T, name string) { mutant.Set(name) }

// TestMutants switches deliberate bugs on, one after the other. The simulation must find each within its number of
// seeds, and find nothing in the same plan without the bug. A simulation that finds none proves nothing.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		if !strings.Contains(m.bug, *bugFlag) {
			continue
		}
		t.Run(strings.ReplaceAll(m.bug, " ", "-")+"/"+cmp.Or(m.works, "any"), func(t *testing.T) {
			scenario, cfg := simulation(variant{works(m.works), m.rests, m.crowd, m.still})
			cfg.Count = cmp.Or(*mostFlag, m.within)
			if testing.Short() {
				cfg.Count *= 5 // chaos plays a fifth of them
			}
			if !*shorter {
				cfg.Shrink = -1
			}
			var found *chaos.Failure
			t.Run("with", func(t *testing.T) {
				mutant.Set(m.bug)
				defer mutant.Set("")
				found = chaos.Find(t, scenario, cfg)
				if !assert.NotNil(t, found, "%q survives %d schedules", m.bug, cfg.Count) {
					return
				}
				if *shorter {
					t.Log(found.Report)
				}
				t.Logf(
					"found after %d schedules, by seed %d, and in %d of 10 replays of it: %v",
					found.Runs,
					found.Plan.Seed,
					found.Replayed,
					found.Violation,
				)
			})
			// The plan that has found the bug is played once. (A child process of this part has found none.)
			t.Run("without", func(t *testing.T) {
				cfg := cfg
				cfg.Count, cfg.Plan = 1, func(p *chaos.Plan) {
					if found != nil {
						*p = *found.Plan
					}
				}
				if testing.Short() {
					cfg.Count = 5
				}
				chaos.Test(t, scenario, cfg)
			})
		})
	}
}

// mutants are the deliberate bugs, the works in which to look for them (empty: as the seed decides), and the number of
// seeds within which each must be found.
var mutants = []struct {
	bug    string
	works  string
	within uint64
	rests  bool // only plans of rests
	crowd  bool // many contenders in one client, and events that arrive one by one
	still  bool // nothing takes time
}{
	{bug: "no own watch while holding", works: "mutex", within: 500},
	{bug: "no own watch while waiting", works: "mutex", within: 1000},
	{bug: "a member's answer is the leader's", works: "mutex", within: 500},
	{bug: "time counted from the disconnect", works: "mutex", within: 500},
	{bug: "slow commits are a timeout that is too short", works: "mutex", within: 500},
	{bug: "slow pings at rest with the old rule", works: "mutex", within: 500, rests: true},
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
	{bug: "what is older than the call proves nothing", works: "fluent", within: 500},
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
	{bug: "a lapse is noticed and forgotten", works: "mutex", within: 1000},
	{bug: "the wall clock counts", works: "mutex", within: 100},
	{bug: "heartbeats wait their turn", works: "mutex", within: 500},
	{bug: "shortcut after a reconnect", works: "mutex", within: 300, crowd: true},
	{bug: "the node ahead taken for the first", works: "mutex", within: 500, crowd: true},
	{bug: "a waiter that gives up leaves a mark", works: "mutex", within: 500},
	{bug: "handed over after a loss", works: "mutex", within: 500},
	{bug: "kept without a watch", works: "mutex", within: 300},
	{bug: "kept after a reconnect without a list", works: "mutex", within: 2000},
	{bug: "kept from those who wait", works: "mutex", within: 300},
	{bug: "turns never end", works: "mutex", within: 300},
	{bug: "a turn for all who come", works: "mutex", within: 300},
	{bug: "joined after a loss", works: "readers", within: 300},
	{bug: "readers join without end", works: "readers", within: 100},
	{bug: "one that gives up takes the others along", works: "readers", within: 300},
	{bug: "the last but one takes the node along", works: "readers", within: 100},
	{bug: "no way is given to parts", works: "semaphore", within: 300},
	{bug: "the transaction is taken for a grant", works: "semaphore", within: 500},
	{bug: "the transaction is taken for a grant", works: "leases", within: 100},
	{bug: "a write repeated blindly after a lost reply", works: "adders", within: 300},
	{bug: "no room in a number as it was", works: "limits", within: 300},
	{bug: "ids of a number that was set back", works: "ids", within: 100},
	{bug: "the numbers of a restored queue are believed", works: "queue", within: 100},
	{bug: "a queue's node is made once", works: "queue", within: 100},
	{bug: "a node of no session taken for a member", works: "group", within: 100},
	{bug: "stripes in the caller's order", works: "striped", within: 100},
	{bug: "a node for which no process stands is passed", works: "mutex", within: 100},
	{bug: "participants in the order of their names", works: "mutex", within: 100},
	{bug: "an instance that is down is chosen", works: "discovery", within: 100},
	{bug: "an item put again after a lost reply", works: "queue", within: 300},
	{bug: "who loses the race for an item handles it, too", works: "queue", within: 100},
	{bug: "an item that could not be taken is passed", works: "simplequeue", within: 500},
	{bug: "an item lost in silence", works: "queue", within: 500},
	{bug: "a handler does not hear of its lock", works: "lockedqueue", within: 500},
	{bug: "an item's lock taken for one's own", works: "lockedqueue", within: 500},
	{bug: "an item's lock deleted until it is gone", works: "lockedqueue", within: 500},
	{bug: "another session's node taken for one's own", works: "keeper", within: 200},
	{bug: "data of a gap forgotten", works: "keeper", within: 500},
	{bug: "a closed keeper leaves its node", works: "keeper", within: 100},
	{bug: "a claim outlives its session", works: "claim", within: 200},
	{bug: "another's node deleted by a repeat", works: "claim", within: 500},
	{bug: "claims of one client not told apart", works: "claim", within: 2000, crowd: true},
	{bug: "a slot not looked up under the lock", works: "once", within: 100},
	{bug: "a slot recorded whose run has failed", works: "once", within: 100},
	{bug: "another's record taken for one's own", works: "atmostonce", within: 100},
	{bug: "an item that is to move is kept", works: "assignment", within: 100},
	{bug: "only a list makes a new plan", works: "assignment", within: 100},
	{bug: "an owner that is not told of a loss", works: "assignment", within: 100},
	{bug: "an item given back before its function has returned", works: "assignment", within: 100},
	{bug: "an item that comes back is not taken again", works: "assignment", within: 100},
	{bug: "a registration that was given up stays", works: "discovery", within: 100},
	{bug: "an update of the node and not of what is kept", works: "discovery", within: 100},
	{bug: "an instance whose node is deleted and not given up", works: "discovery", within: 100},
	{bug: "an instance of the same node is the same", works: "discovery", within: 100},
}
