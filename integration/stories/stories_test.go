package stories

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkcontainer"
	"github.com/go-curator/curator/integration/zkserver"
)

// On one server Java takes part.
func TestBesideJava(t *testing.T) {
	t.Parallel()
	interop(t)
	tell(t, zkserver.StartEnsemble(t, 1, zkserver.Options{TickTime: tick, SyncLimit: syncLimit,
		ContainerCheckInterval: tick}), with{java: true})
}

func threeServers(t *testing.T) *zkserver.Ensemble {
	t.Helper()
	return zkserver.StartEnsemble(t, 3, zkserver.Options{TickTime: tick, SyncLimit: syncLimit})
}

func TestOnThreeServers(t *testing.T) {
	t.Parallel()
	tell(t, threeServers(t), with{})
}

func TestInContainers(t *testing.T) {
	if withoutDocker() {
		t.Log("figure: LEFT OUT: stories in containers, since CURATOR_TEST_WITHOUT says docker")
		return
	}
	t.Parallel()
	servers, err := zkcontainer.RunEnsemble(kit.Context(t), 3, zkcontainer.WithTickTime(tick),
		zkcontainer.WithSyncLimit(syncLimit))
	require.NoError(t, err)
	kit.RanOn(t, "3 containers")
	t.Cleanup(func() { assert.NoError(t, servers.Terminate(context.Background())) })
	tell(t, servers, with{few: true})
}

// with has the options of a suite.
type with struct {
	few  bool // not all faults
	java bool // a Java process, and faults of its own
}

// tell runs all workloads during all faults, one fault after the other.
func tell(t *testing.T, servers cluster.Cluster, w with) {
	began, on := time.Now(), servers.Name()
	if w.java {
		on += ", beside Java"
	}
	g := assemble(t, servers, w.java)
	if !t.Run("begin", g.goOn) {
		return
	}
	for _, fault := range faults {
		if w.few && !fault.few || fault.three && servers.Size() < 3 || fault.java && !w.java {
			continue
		}
		before, wrong := map[*scene]int{}, map[*scene]int64{}
		for _, s := range g.scenes {
			before[s], wrong[s] = s.total(), s.wrong.Load()
		}
		played := false // -run may leave it out
		whole := t.Run(fault.name, func(t *testing.T) {
			began := time.Now()
			played = true
			fault.make(t, g)
			g.serving(t)
			over := time.Now()
			g.goOn(t)
			served := time.Now()
			for _, s := range g.scenes {
				if s.settled != nil {
					s.settled(t)
				}
			}
			t.Logf("%s lasted %v, everybody had been served again %v after, and copies were equal %v later",
				fault.name, over.Sub(began), served.Sub(over), time.Since(served))
		})
		if !played {
			continue
		}
		for _, s := range g.scenes {
			table := "Rounds in which everybody did everything through faults, on " + on
			kit.Cell(t, table, s.name, fault.name, s.wrong.Load() == wrong[s], s.total()-before[s])
		}
		if !whole || t.Failed() {
			return
		}
	}
	g.leave(t)
	rounds := 0
	for _, s := range g.scenes {
		rounds += s.total()
	}
	kit.Figure(t, "stories on %s: %d rounds in %v", on, rounds,
		time.Since(began).Round(100*time.Millisecond))
}
