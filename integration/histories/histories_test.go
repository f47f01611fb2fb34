package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tick      = 500 * time.Millisecond
	syncLimit = 4
	timeout   = 6 * time.Second
	stale     = (2*syncLimit + 3) * tick / 2
	clients   = 4
)

// dial creates a client without retries, so that each operation has one outcome.
func dial(t *testing.T, servers cluster.Cluster, who int) (worker, kit.Cable) {
	t.Helper()
	client, cable := kit.ConnectedTo(t, servers, who, framework.WithSessionTimeout(timeout),
		framework.WithStaleServerBound(stale),
		framework.WithServerTick(tick), framework.WithRetry(retry.RetryNTimes{}),
		framework.WithConnectionTimeout(2*time.Second))
	return worker{t, who, client}, cable
}

func create(t *testing.T, client *framework.Client, path string, data string) string {
	t.Helper()
	_, err := client.Create().CreatingParentsIfNeeded().ForPath(kit.Context(t), path, []byte(data))
	require.NoError(t, err)
	return path
}

func setting[T any](t *testing.T, name string, parse func(string) (T, error), otherwise T) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	require.NoError(t, err, name)
	return v
}

// Clients take turns at a lock and at leading, write while they hold it, and count, during all kinds of faults.
func TestHistories(t *testing.T) {
	t.Parallel()
	lasts := setting(t, "CURATOR_TEST_HISTORIES", time.ParseDuration, 30*time.Second)
	seed := setting(t, "CURATOR_TEST_SEED", func(s string) (uint64, error) {
		return strconv.ParseUint(s, 10, 64)
	}, rand.Uint64())
	t.Logf("CURATOR_TEST_SEED=%d CURATOR_TEST_HISTORIES=%v", seed, lasts)
	servers := zkserver.StartEnsemble(t, 3, zkserver.Options{TickTime: tick, SyncLimit: syncLimit})
	began := clock(time.Now())
	locks := begin("lock", exclusive, began)
	terms := begin("election", exclusive, began)
	counter := begin("counter", counting, began)
	lockWrites := begin("writes under the lock's guard", fencing, began)
	termWrites := begin("writes under the leader's guard", fencing, began)
	nemesis := &nemesis{t: t, random: rand.New(rand.NewPCG(seed, 0)), servers: servers, clock: began,
		prey: []*history{locks, terms}}

	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t.Cleanup(func() { stop(); work.Wait() })
	var count, fence, throne string
	for who := range clients {
		w, cable := dial(t, servers, who)
		nemesis.cables = append(nemesis.cables, cable)
		if who == 0 {
			count = create(t, w.client, "/history/counter", "0")
			fence, throne = create(t, w.client, "/history/fence", ""), create(t, w.client, "/history/throne", "")
		}
		work.Go(func() { w.lock(ctx, locks, lockWrites, "/history/lock", fence) })
		work.Go(func() { w.lead(ctx, terms, termWrites, "/history/leader", throne) })
		work.Go(func() { w.count(ctx, counter, count) })
	}
	raging, calm := context.WithTimeout(ctx, lasts)
	defer calm()
	nemesis.rage(raging)
	// All clients are served again: a client that waited forever would be in no history.
	for _, h := range []*history{locks, terms, counter} {
		for who := range clients {
			theirs := func() int {
				return h.count(func(op porcupine.Operation) bool { return op.ClientId == who && op.Return != never })
			}
			before := theirs()
			kit.Soon(t, fmt.Sprintf("%s: client %d is served again", h.name, who),
				func() bool { return theirs() > before+1 })
		}
	}
	stop()
	work.Wait()

	checking := time.Now()
	for _, h := range []*history{locks, terms, counter, lockWrites, termWrites} {
		assert.Greater(t, len(h.ops), 50, "%s: that is too little to prove anything", h.name)
		h.check(t, nemesis.notes)
		open := h.count(func(op porcupine.Operation) bool { return op.Return == never })
		lost := h.count(func(op porcupine.Operation) bool { end, ok := op.Input.(tenure); return ok && end.lost })
		kit.Figure(t, "history of the %s: %d operations, %d of them of unknown outcome, %d holds lost", h.name,
			len(h.ops), open, lost)
		kit.Cell(t, "Histories that make sense (operations), on "+servers.Name(), h.name, "operations", !t.Failed(),
			len(h.ops))
	}
	kit.Figure(t, "%d troubles in %v, all histories checked in %v", len(nemesis.notes), lasts,
		time.Since(checking).Round(time.Millisecond))
}
