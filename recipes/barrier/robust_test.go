package barrier_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/zktest"
)

// What others write into their nodes does not matter, whatever this client would make of its own data.
func TestPlainDataOfOthers(t *testing.T) {
	t.Run("barrier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s, framework.WithCompression())
			require.NoError(t, s.Create("/gate", []byte("plain")))
			wait := waiting(t, background, barrier.New(c, "/gate")).waits()
			require.NoError(t, s.Delete("/gate"))
			wait.ok()
		})
	})
	t.Run("double", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s, framework.WithCompression())
			w := entering(t, background, barrier.NewDouble(c, path, 2)).waits()
			java(t, s, newClient(t, s), "!1")
			require.NoError(t, s.Set(path+"/!1", []byte("plain")))
			require.NoError(t, s.Create(path+"/ready", []byte("plain")))
			out := leaving(t, background, w.ok()).waits()
			require.NoError(t, s.Delete(path+"/!1"))
			out.ok()
			clean(t, s)
		})
	})
}
