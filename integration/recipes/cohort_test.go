package recipes

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// Goroutines that pass the lock on, those of a process that also keeps it, and Java, at one path: never
// two at once, and all get their turns.
func TestCohortsWithJava(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "mutex", kit.Mixed)
	const rounds, path = 25, "/locks/cohort"
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	ctx := kit.Context(t)
	var (
		holders atomic.Int32
		passed  atomic.Int32
		last    atomic.Value // the node that had the last turn
		all     sync.WaitGroup
	)
	turn := func(who, node string) {
		assert.EqualValues(t, 1, holders.Add(1), "%s holds, and so does somebody else", who)
		if before, _ := last.Swap(node).(string); before == node {
			passed.Add(1)
		}
		time.Sleep(time.Millisecond)
		holders.Add(-1)
	}
	for name, opts := range map[string][]mutex.Option{
		"one":     {mutex.WithTurns(5, time.Second)},
		"another": {mutex.WithTurns(100, 10*time.Millisecond)},
		"a third": {mutex.WithTurns(3, time.Second), mutex.WithKept(time.Minute)},
	} {
		client, _ := kit.Connected(t, node.ConnectString())
		m := mutex.NewCohort(client, path, opts...)
		for range 4 {
			all.Go(func() {
				for range rounds {
					lock, err := m.Acquire(ctx)
					if !assert.NoError(t, err, name) {
						return
					}
					turn(name, lock.Node())
					assert.NoError(t, lock.Release(ctx), name)
				}
			})
		}
	}
	for _, name := range []string{"java 1", "java 2"} {
		java := javaParty(t, name, node.ConnectString(), path)
		all.Go(func() {
			for range rounds {
				node, err := java.acquire(ctx)
				if !assert.NoError(t, err, name) {
					return
				}
				turn(name, node)
				assert.NoError(t, java.release(ctx), name)
			}
		})
	}
	all.Wait()
	assert.Positive(t, passed.Load())
	kit.Figure(t, "%d turns of Go and Java, %d of them passed on inside a process, never two at once",
		14*rounds, passed.Load())
}

// What a Go process keeps without using it Java gets at once, and the other way round nothing changes.
// Java's acquire without a wait fails once, and is noticed.
func TestKeptWithJava(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "mutex", kit.Mixed)
	const path = "/locks/kept"
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	ctx := kit.Context(t)
	client, _ := kit.Connected(t, node.ConnectString())
	m := mutex.NewCohort(client, path, mutex.WithKept(time.Hour))
	_, java := javaLock(t, node.ConnectString(), path, 10*time.Second)
	use := func() (name string) {
		for range 100 {
			lock, err := m.Acquire(ctx)
			require.NoError(t, err)
			assert.True(t, lock.Valid())
			name = lock.Node()
			require.NoError(t, lock.Release(ctx))
		}
		return name
	}
	for range 5 {
		ours := use()
		_, there, err := m.Holder(ctx)
		require.NoError(t, err)
		require.True(t, there, "it is kept")
		began := time.Now()
		theirs, err := java.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
		t.Logf("Java has it after %v", time.Since(began))
		assert.Greater(t, number(theirs), number(ours))
		granted := make(chan string, 1)
		go func() { granted <- use() }()
		kit.Soon(t, "both are in line", func() bool {
			line, err := java.Participants(ctx)
			return assert.NoError(t, err) && len(line) == 2
		})
		require.NoError(t, java.Release(ctx))
		assert.Greater(t, number(kit.Receive(t, "the lock", granted)), number(theirs))
	}
	// It tries until it has it: once if it is unlucky.
	kit.Soon(t, "Java gets what is kept by trying", func() bool {
		limited, cancel := context.WithTimeout(ctx, kit.Patience)
		defer cancel()
		_, err := java.Acquire(limited, time.Millisecond)
		return err == nil
	})
	require.NoError(t, java.Release(ctx))
}
