package ensemble

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestMain(m *testing.M) {
	kit.Hold()
	goleak.VerifyTestMain(m)
}

// The servers of these stories are quick: in the same time there is more trouble.
const (
	tick      = 500 * time.Millisecond
	syncLimit = 4
	timeout   = 6 * time.Second
	// staleBound is (syncLimit + 1.5) ticks.
	staleBound = (2*syncLimit + 3) * tick / 2
)

func start(t *testing.T) *zkserver.Ensemble {
	t.Helper()
	return zkserver.StartEnsemble(t, 3, zkserver.Options{TickTime: tick, SyncLimit: syncLimit})
}

// rules tell a client what kind of servers it has.
func rules() []framework.Option {
	return []framework.Option{
		framework.WithSessionTimeout(timeout),
		framework.WithStaleServerBound(staleBound),
		framework.WithServerTick(tick),
	}
}

// cable is the network of one client: a way to each server, of its own.
type cable []*proxy.Proxy

func plug(t *testing.T, c cluster.Cluster) cable {
	t.Helper()
	var all cable
	for i := range c.Size() {
		all = append(all, proxy.New(t, c.Addr(i)))
	}
	t.Cleanup(all.heal) // so that the client closes in peace
	return all
}

func (c cable) connectString() string {
	text := ""
	for i, p := range c {
		if i > 0 {
			text += ","
		}
		text += p.Addr()
	}
	return text
}

// hang lets nothing through any more.
func (c cable) hang() {
	for _, p := range c {
		p.Hang(proxy.Both)
	}
}

func (c cable) heal() {
	for _, p := range c {
		p.Heal()
	}
}

// client is one with a cable of its own.
func client(t *testing.T, c cluster.Cluster, opts ...framework.Option) (*framework.Client, cable) {
	t.Helper()
	wire := plug(t, c)
	client, _ := kit.Connected(t, wire.connectString(), append(rules(), opts...)...)
	return client, wire
}

// serving waits until all is well.
func serving(t *testing.T, c cluster.Cluster) {
	t.Helper()
	require.NoError(t, c.AwaitServing(kit.Context(t)))
}
