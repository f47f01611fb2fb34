package stories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
)

// The servers of all groups have short time limits, for more faults in the same time.
const (
	tick      = 500 * time.Millisecond
	syncLimit = 4
	timeout   = 6 * time.Second
	// stale is (syncLimit + 1.5) ticks: how long a member may continue to reply after it has lost its leader.
	stale = (2*syncLimit + 3) * tick / 2
	// clients are in every group, and each takes part in every workload. One group has a Java process, too.
	clients = 3
	root    = "/stories"
)

// workloads are the clients' workloads.
var workloads = []struct {
	name  string
	begin func(*group, *scene) part
}{
	{"mutex", mutexes},
	{"mutex, all ways", ways},
	{"read-write lock", rwlocks},
	{"semaphore", semaphores},
	{"multi-lock", multis},
	{"leader latch", latches},
	{"leader selector", selectors},
	{"barrier", barriers},
	{"double barrier", doubles},
	{"caches", caches},
	{"queue at most once", queues(false)},
	{"queue at least once", queues(true)},
	{"kept nodes", keepers},
	{"group", groups},
	{"service discovery", services},
	{"slots at least once", slots(false)},
	{"slots at most once", slots(true)},
	{"assignment", assignments},
}

// group has the clients and their workloads.
type group struct {
	t       *testing.T
	servers cluster.Cluster
	clients []*framework.Client
	cables  []kit.Cable
	scenes  []*scene
	cling   [clients + 1]atomic.Bool // clients that release nothing
	ctx     context.Context          // ends when the clients must stop
	stop    context.CancelFunc
	work    sync.WaitGroup

	beside  bool // Java takes part
	guest   *guest
	wire    kit.Cable         // Java's
	watcher *framework.Client // it looks for Java's nodes
}

// rules returns the options that describe the servers to a client.
func rules() []framework.Option {
	return []framework.Option{
		framework.WithSessionTimeout(timeout), framework.WithStaleServerBound(stale),
		framework.WithServerTick(tick),
	}
}

// assemble connects the clients and starts all workloads. The last client's network never fails alone.
func assemble(t *testing.T, servers cluster.Cluster, beside bool) *group {
	t.Helper()
	g := &group{t: t, servers: servers}
	if beside {
		g.expect(t)
	}
	for who := range clients {
		client, cable := kit.ConnectedTo(t, servers, who, rules()...)
		g.clients, g.cables = append(g.clients, client), append(g.cables, cable)
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	t.Cleanup(func() { g.stop(); g.work.Wait() })
	for _, w := range workloads {
		s := &scene{t: t, g: g, name: w.name, path: root + "/" + strings.ReplaceAll(w.name, " ", "-")}
		do := w.begin(g, s)
		for who := range clients {
			g.work.Go(func() { do(g.ctx, who) })
		}
		g.scenes = append(g.scenes, s)
	}
	if beside {
		g.invite(t)
	}
	return g
}

// withJava reports whether Java takes part in a workload.
func (s *scene) withJava() bool { return s.g.beside && s.java != nil }

// served returns the number of clients that goOn waits for.
func (s *scene) served() int {
	if s.withJava() && !s.slow {
		return clients + 1
	}
	return clients
}

// goOn waits until every client has been served once more in every workload. One round may have been in progress.
func (g *group) goOn(t *testing.T) {
	t.Helper()
	targets := map[*scene][]int64{}
	for _, s := range g.scenes {
		for who := range s.served() {
			targets[s] = append(targets[s], s.rounds[who].Load()+2)
		}
	}
	began, last := time.Now(), []string(nil)
	for end := began.Add(kit.Patience); ; time.Sleep(5 * time.Millisecond) {
		var waiting []string
		for _, s := range g.scenes {
			for who, target := range targets[s] {
				if s.rounds[who].Load() < target {
					waiting = append(waiting, fmt.Sprintf("%s: client %d", s.name, who))
				}
			}
		}
		switch {
		case len(waiting) == 0:
			if took := time.Since(began); took > kit.Patience/10 {
				t.Logf("served after %v; the last were %s", took, strings.Join(last, ", "))
			}
			return
		case time.Now().After(end):
			for _, s := range g.scenes {
				if strings.Contains(strings.Join(waiting, "\n"), s.name+":") {
					s.wrong.Add(1)
				}
			}
			require.FailNow(t, "not served again", "%s", strings.Join(waiting, "\n"))
		}
		last = waiting
	}
}

// holdOn has all clients keep their holds for a while, unless they are lost.
func (g *group) holdOn(d time.Duration) {
	for who := range g.cling {
		g.cling[who].Store(true)
		defer g.cling[who].Store(false)
	}
	time.Sleep(d)
}

// grabs waits until a client holds something in every workload with holds, and keeps it until letGo.
func (g *group) grabs(t *testing.T, who int) (letGo func()) {
	t.Helper()
	g.cling[who].Store(true)
	for _, s := range g.scenes {
		if s.held && who < s.served() {
			kit.Soon(t, s.name+" is held", func() bool { return s.holds[who].Load() > 0 })
		}
	}
	return func() { g.cling[who].Store(false) }
}

// servedBut waits until others have been granted the holds that one client may still consider its own: another client,
// and Java.
func (g *group) servedBut(t *testing.T, but int) {
	t.Helper()
	for _, s := range g.scenes {
		if !s.held || but >= s.served() {
			continue
		}
		for _, other := range []int{(but + 1) % clients, java} {
			if other == but || other >= s.served() {
				continue
			}
			before := s.rounds[other].Load()
			kit.Soon(t, s.name+" is granted to another", func() bool { return s.rounds[other].Load() > before })
		}
	}
}

// serving waits until all members serve.
func (g *group) serving(t *testing.T) {
	t.Helper()
	require.NoError(t, g.servers.AwaitServing(kit.Context(t)))
}

// roles returns the leader and another member; with a single server they are the same.
func (g *group) roles(t *testing.T) (leading, follower int) {
	t.Helper()
	if g.servers.Size() == 1 {
		return 0, 0
	}
	leading, err := g.servers.Leader(kit.Context(t))
	require.NoError(t, err)
	return leading, (leading + 1) % g.servers.Size()
}

// leave stops all clients, and checks that only empty directories are left.
func (g *group) leave(t *testing.T) {
	t.Helper()
	if g.beside {
		g.dismiss(t)
	}
	g.stop()
	g.work.Wait()
	for _, s := range g.scenes {
		if s.over != nil {
			s.over()
		}
		for end := time.Now().Add(kit.Patience); ; time.Sleep(10 * time.Millisecond) {
			left, err := g.leftovers(g.clients[0], s)
			if err == nil && len(left) == 0 {
				break
			}
			require.False(t, time.Now().After(end), "left of %s: %v %v", s.name, left, err)
		}
	}
	for _, client := range g.clients {
		kit.Soon(t, "no clean-up is pending", func() bool { return client.PendingCleanups() == 0 })
		require.NoError(t, client.Close())
	}
	last, _ := kit.Connected(t, g.servers.ConnectString(), framework.WithSessionTimeout(timeout))
	for node, err := range tree.Walk(last).ForPath(kit.Context(t), root) {
		require.NoError(t, err)
		require.Zero(t, node.Stat.EphemeralOwner, node.Path)
	}
}

// leftovers returns the nodes of a workload that should not be there.
func (g *group) leftovers(client *framework.Client, s *scene) (left []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	for node, err := range tree.Walk(client).ForPath(ctx, s.path) {
		if errors.Is(err, framework.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(node.Path, s.path)
		if name != "" && (s.dirs == nil || !s.dirs.MatchString(name)) {
			left = append(left, name)
		}
	}
	return left, nil
}
