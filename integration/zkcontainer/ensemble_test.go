package zkcontainer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/cluster/clustertest"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkcontainer"
	"github.com/go-curator/curator/recipes/mutex"
)

// ensemble starts an ensemble that ends with the test.
func ensemble(t *testing.T, size int, opts ...testcontainers.ContainerCustomizer) *zkcontainer.Ensemble {
	t.Helper()
	began := time.Now()
	e, err := zkcontainer.RunEnsemble(kit.Context(t), size, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Terminate(context.Background())) })
	kit.RanOn(t, fmt.Sprintf("%d containers", size))
	kit.Figure(t, "%s served after %v", e.Name(), time.Since(began).Round(10*time.Millisecond))
	return e
}

// Containers fulfill the same contract as child processes.
func TestContract(t *testing.T) {
	t.Parallel()
	clustertest.Run(t, ensemble(t, 3), clustertest.Timing{Tick: 500 * time.Millisecond, SyncLimit: 4})
}

// A service's story: the lock is handed over while the leader of the servers is killed, and a client that is cut off
// loses its lock in time.
func TestLocksGoThrough(t *testing.T) {
	t.Parallel()
	ctx := kit.Context(t)
	e := ensemble(t, 3)
	const timeout = 4 * time.Second
	first, _ := kit.Connected(t, e.ConnectString(), framework.WithSessionTimeout(timeout))
	second, _ := kit.Connected(t, e.ConnectString(), framework.WithSessionTimeout(timeout))
	held, err := mutex.New(first, "/lock").Acquire(ctx)
	require.NoError(t, err)
	waiting := kit.Call(t, ctx, mutex.New(second, "/lock").Acquire)
	kit.Soon(t, "the second waits", func() bool {
		children, err := first.GetChildren().ForPath(ctx, "/lock")
		return err == nil && len(children) == 2
	})

	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	killed := time.Now()
	require.NoError(t, e.Kill(leader))
	if err := held.Release(ctx); err != nil {
		require.Error(t, held.Context().Err(), "only a lock that is lost cannot be released: %v", err)
	}
	lock := kit.Receive(t, "the lock", waiting)
	require.NotNil(t, lock)
	kit.Figure(t, "the lock passed on %v after the leader of the servers was killed",
		time.Since(killed).Round(10*time.Millisecond))
	require.NoError(t, e.Start(leader))
	require.NoError(t, e.AwaitServing(ctx))

	hung := time.Now()
	for i := range e.Size() {
		e.HangClients(i, proxy.Both)
	}
	kit.Closed(t, "the lock is known to be lost", lock.Context().Done())
	kit.Figure(t, "the holder of a session of %v knew after %v that it was cut off", timeout,
		time.Since(hung).Round(10*time.Millisecond))
	assert.Less(t, time.Since(hung), timeout+kit.Slack())
	for i := range e.Size() {
		e.HealClients(i)
	}
	again, err := mutex.New(first, "/lock").Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, again.Release(ctx))
}
