package clients

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// The results of inspect for lines of Java's, kazoo's and this library's contenders equal what these contenders
// themselves report.
func TestInspectLinesOfAllLibraries(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	client, _ := kit.Connected(t, node.ConnectString())
	python, second := connectKazoo(t, node.ConnectString()), connectKazoo(t, node.ConnectString())
	java := javapeer.Start(t)
	ctx := kit.Context(t)
	require.NoError(t, java.Connect(ctx, node.ConnectString(), 10*time.Second))
	stands := func(path string, holders, waiting int) (line inspect.Line) {
		t.Helper()
		kit.Soon(t, strconv.Itoa(holders)+" hold and "+strconv.Itoa(waiting)+" wait at "+path, func() bool {
			var err error
			line, err = inspect.Who(ctx, client, path)
			require.NoError(t, err)
			return len(line.Holders) == holders && len(line.Waiting) == waiting
		})
		assert.Empty(t, line.Foreign)
		assert.Empty(t, line.Notes)
		return line
	}
	sessionOf := func(k *kazoo) int64 {
		id, err := strconv.ParseInt(k.must(t, "session", nil).(string), 10, 64)
		require.NoError(t, err)
		return id
	}

	t.Run("one line of all three", func(t *testing.T) {
		held, err := java.Mutex(ctx, "first", "/locks/mixed")
		require.NoError(t, err)
		first, err := held.Acquire(ctx, -1)
		require.NoError(t, err)
		python.must(t, "lock", with{"name": "k", "path": "/locks/mixed", "layout": "curator"})
		waits := python.begin("acquire", with{"name": "k"})
		stands("/locks/mixed", 1, 1)
		granted := kit.Call(t, ctx, mutex.New(client, "/locks/mixed", mutex.WithNodeData([]byte("ours"))).Acquire)
		line := stands("/locks/mixed", 1, 2)
		assert.Equal(t, inspect.Mutex, line.Kind)
		id, err := java.SessionID(ctx)
		require.NoError(t, err)
		own, err := client.Session(ctx)
		require.NoError(t, err)
		for i, want := range []struct {
			library inspect.Library
			session int64
		}{{inspect.Java, id}, {inspect.Kazoo, sessionOf(python)}, {inspect.Go, own.ID()}} {
			p := append(line.Holders, line.Waiting...)[i]
			assert.Equal(t, want.library, p.Library, i)
			assert.Equal(t, want.session, p.Session, i)
		}
		assert.Equal(t, first, line.Holders[0].Name)
		assert.Equal(t, "k", string(line.Waiting[0].Data))
		assert.Equal(t, "ours", string(line.Waiting[1].Data))
		seen, err := java.Participants(ctx, "/locks/mixed")
		require.NoError(t, err)
		assert.Len(t, seen, 3)

		require.NoError(t, held.Release(ctx))
		_, err = waits(ctx)
		require.NoError(t, err)
		python.must(t, "release", with{"name": "k"})
		require.NoError(t, kit.Receive(t, "the lock", granted).Release(ctx))
		stands("/locks/mixed", 0, 0)
	})
	t.Run("kazoo's own", func(t *testing.T) {
		for kind, want := range map[string]inspect.Kind{"lock": inspect.Mutex, "writeLock": inspect.Mutex} {
			path := "/kazoo/" + kind
			python.must(t, kind, with{"name": kind, "path": path})
			second.must(t, kind, with{"name": kind, "path": path})
			python.must(t, "acquire", with{"name": kind})
			waits := second.begin("acquire", with{"name": kind})
			line := stands(path, 1, 1)
			assert.Equal(t, want, line.Kind)
			assert.Equal(t, sessionOf(python), line.Holders[0].Session)
			assert.Equal(t, inspect.Kazoo, line.Waiting[0].Library)
			python.must(t, "release", with{"name": kind})
			_, err := waits(ctx)
			require.NoError(t, err)
			second.must(t, "release", with{"name": kind})
		}

		python.must(t, "readLock", with{"name": "r", "path": "/kazoo/rw"})
		second.must(t, "writeLock", with{"name": "w", "path": "/kazoo/rw"})
		python.must(t, "acquire", with{"name": "r"})
		waits := second.begin("acquire", with{"name": "w"})
		line := stands("/kazoo/rw", 1, 1)
		assert.Equal(t, inspect.ReadWriteLock, line.Kind)
		assert.True(t, line.Holders[0].Reader)
		assert.False(t, line.Waiting[0].Reader)
		python.must(t, "release", with{"name": "r"})
		_, err := waits(ctx)
		require.NoError(t, err)
		second.must(t, "release", with{"name": "w"})

		python.must(t, "semaphore", with{"name": "s", "path": "/kazoo/sem", "leases": 1})
		second.must(t, "semaphore", with{"name": "s", "path": "/kazoo/sem", "leases": 1})
		python.must(t, "acquire", with{"name": "s"})
		waits = second.begin("acquire", with{"name": "s"})
		line = stands("/kazoo/sem", 1, 1)
		assert.Equal(t, inspect.Semaphore, line.Kind)
		assert.Equal(t, 1, line.Max)
		assert.Equal(t, sessionOf(python), line.Holders[0].Session)
		assert.Equal(t, sessionOf(second), line.Waiting[0].Session)
		found, err := inspect.Locks(ctx, client, "/")
		require.NoError(t, err)
		require.Len(t, found.Lines, 1)
		assert.Equal(t, "/kazoo/sem", found.Lines[0].Path)
		python.must(t, "release", with{"name": "s"})
		_, err = waits(ctx)
		require.NoError(t, err)
		second.must(t, "release", with{"name": "s"})
	})
	python.must(t, "close", nil)
	second.must(t, "close", nil)
}
