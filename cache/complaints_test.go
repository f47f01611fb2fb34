package cache_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Who writes what cannot be decoded, again and again, does not fill the log; of each the cache knows all the
// same.
func TestNodesThatCannotBeDecodedDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var log bytes.Buffer // written on one goroutine, read in between
		lines := func() int { synctest.Wait(); return strings.Count(log.String(), "cannot read a node") }
		c := dial(t, srv, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, srv.Create("/r", nil))
		require.NoError(t, srv.Create("/r/flaps", nil))
		tree := open(t, c, "/r", cache.WithCompressedData())
		for i := range 200 {
			require.NoError(t, srv.Set("/r/flaps", []byte("not packed"))) // told each time: in between it can be read
			synctest.Wait()
			require.NoError(t, srv.Set("/r/flaps", zip(t, "packed")))
			synctest.Wait()
			require.NoError(t, srv.Create(fmt.Sprintf("/r/n%d", i), []byte("not packed")))
			synctest.Wait()
		}
		assert.Equal(t, 16, lines())
		assert.Equal(t, 1, strings.Count(log.String(), "see Failures"))
		failing := 0
		for range tree.Failures() {
			failing++
		}
		assert.Equal(t, 200, failing)

		time.Sleep(time.Minute)
		require.NoError(t, srv.Set("/r/flaps", []byte("not packed")))
		assert.Equal(t, 17, lines())
	})
}
