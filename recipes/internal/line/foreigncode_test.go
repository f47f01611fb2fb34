package line_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// gatedDecoder is a compression provider that calls at, which may block, for data that other clients have written.
type gatedDecoder struct {
	framework.Gzip
	at func(data []byte)
}

func (g gatedDecoder) Decompress(path string, data []byte) ([]byte, error) {
	g.at(data)
	return g.Gzip.Decompress(path, data)
}

func packed(t *testing.T, s string) []byte {
	data, err := framework.Gzip{}.Compress("", []byte(s))
	require.NoError(t, err)
	return data
}

// A compression provider that blocks on another client's data in a lock's node blocks neither a cache nor another lock.
func TestAProviderThatWaitsForARevocation(t *testing.T) {
	bg := context.Background()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		free := make(chan struct{})
		release := sync.OnceFunc(func() { close(free) })
		defer release()
		c := recipetest.Client(t, s, framework.WithCompressionProvider(gatedDecoder{at: func(data []byte) {
			if string(data) == "wait" {
				<-free
			}
		}}), framework.WithCompression())
		tree, err := cache.NewTree(c, "/config")
		require.NoError(t, err)
		defer tree.Close()
		lock, err := mutex.New(c, "/a", mutex.WithRevocation()).Acquire(bg)
		require.NoError(t, err)
		other, err := mutex.New(c, "/b", mutex.WithRevocation()).Acquire(bg)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, s.Set(lock.Path(), []byte("wait")))
		synctest.Wait()

		require.NoError(t, s.Create("/config", nil))
		require.NoError(t, s.Set(other.Path(), packed(t, "__REVOKE__")))
		time.Sleep(time.Second)
		require.True(t, tree.Len() > 0, "the cache has stopped")
		requireAsked(t, other)
		require.NoError(t, other.Release(bg))

		plain, err := mutex.New(c, "/c", mutex.WithRevocation()).Acquire(bg)
		require.NoError(t, err)
		for _, data := range []string{"wait", "__REVOKE__"} { // the second needs no provider
			require.NoError(t, s.Set(plain.Path(), []byte(data)))
			synctest.Wait()
		}
		requireAsked(t, plain)
		require.NoError(t, plain.Release(bg))

		require.NoError(t, s.Set(lock.Path(), []byte("overwritten")))
		synctest.Wait()
		require.NoError(t, s.Set(lock.Path(), packed(t, "__REVOKE__")))
		synctest.Wait()
		release()
		synctest.Wait()
		requireAsked(t, lock)
		require.NoError(t, lock.Release(bg))
	})
}

func requireAsked(t *testing.T, lock *mutex.Lock) {
	t.Helper()
	select {
	case <-lock.Revoked():
	default:
		t.Fatal("the request to give up did not come")
	}
}

// A client that compresses gets compressed and uncompressed requests. Other data are no requests, nor are data that are too
// large.
func TestRequestsThatAreCompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := mutex.New(recipetest.Client(t, s, framework.WithCompression()), "/a", mutex.WithRevocation())
		large := func(size int) []byte { // a request with an extra field in gzip's header
			var buf bytes.Buffer
			for _, extra := range []int{0, size} {
				w := gzip.NewWriter(&buf)
				w.Extra = make([]byte, max(0, extra-buf.Len()))
				buf.Reset()
				_, err := w.Write([]byte("__REVOKE__"))
				require.NoError(t, err)
				require.NoError(t, w.Close())
			}
			require.Equal(t, size, buf.Len())
			return buf.Bytes()
		}
		for _, c := range []struct {
			data  []byte
			asked bool
		}{
			{[]byte("__REVOKE__"), true}, {packed(t, "__REVOKE__"), true}, {[]byte("hello"), false}, {packed(t, "hello"), false},
			{large(framework.ContenderDataLimit), true}, {large(framework.ContenderDataLimit + 1), false},
		} {
			lock, err := m.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.Set(lock.Path(), c.data))
			require.Equal(t, c.asked, recipetest.Closed(lock.Revoked()), "%d bytes", len(c.data))
			require.NoError(t, lock.Release(t.Context()))
		}
		recipetest.Clean(t, s, "/a")
	})
}

// A provider that has ended its goroutine is called again for the next data.
func TestAProviderThatEndsItsGoroutineForARevocation(t *testing.T) {
	bg := context.Background()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s, framework.WithCompressionProvider(gatedDecoder{at: func(data []byte) {
			if string(data) == "end" {
				runtime.Goexit()
			}
		}}), framework.WithCompression())
		lock, err := mutex.New(c, "/a", mutex.WithRevocation()).Acquire(bg)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, s.Set(lock.Path(), []byte("end")))
		synctest.Wait()
		require.NoError(t, s.Set(lock.Path(), packed(t, "__REVOKE__")))
		synctest.Wait()
		requireAsked(t, lock)
		require.NoError(t, lock.Release(bg))
	})
}

// shutHandler is a log handler that blocks.
type shutHandler struct{ free chan struct{} }

func (h shutHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (h shutHandler) Handle(context.Context, slog.Record) error { <-h.free; return nil }
func (h shutHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h shutHandler) WithGroup(string) slog.Handler             { return h }

// A log handler that blocks does not block a recipe: here for the warning about a foreign node in the line.
func TestALogHandlerThatDoesNotReturnFromARecipe(t *testing.T) {
	bg := context.Background()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		h := shutHandler{make(chan struct{})}
		defer close(h.free)
		c := recipetest.Client(t, s, framework.WithLogger(slog.New(h)))
		require.NoError(t, s.Create("/a", nil))
		require.NoError(t, s.Create("/a/foreign", nil))
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		lock, err := mutex.New(c, "/a").Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, lock.Release(ctx))
	})
}
