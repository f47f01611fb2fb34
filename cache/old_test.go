package cache_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A server before 3.6 closes the connection on the newer operations that a cache uses, and the loss of the connection ends
// holds.
func TestACacheCostsNoConnection(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			bubble(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				create(t, srv, "/r", "/r/a")
				s, err := c.Session(t.Context())
				require.NoError(t, err)
				_, err = s.Client().Create().WithMode(framework.Ephemeral).ForPath(t.Context(), "/lock", nil)
				require.NoError(t, err)
				h, err := s.Hold(t.Context(), framework.HoldOptions{Path: "/lock", Loss: framework.SuspendedIsLoss})
				require.NoError(t, err)
				settle()
				srv.ResetCounts()
				for range 2 {
					tree := synced(cache.New(c, "/r"))(t)
					assert.True(t, h.Valid())
					same(t, srv, tree)
				}
				settle()
				assert.NoError(t, h.Context().Err())
				h.End(nil)
				assert.Zero(t, srv.Counts()["connect"])
				t.Logf("%v", requests(srv))
				assert.LessOrEqual(t, srv.Counts()["checkWatches"], 2, "once per server")
			})
		})
	}
}
