package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest"
)

// A hold that is lost by the clock is lost with its session, whoever was the first to look at the clock: what the session had must not stay in
// anybody's way.
func TestWhoeverNoticesTheLapseEndsTheSession(t *testing.T) {
	for name, look := range map[string]func(*Hold){
		"nobody":    func(*Hold) {},
		"Valid":     func(h *Hold) { h.Valid() },
		"Remaining": func(h *Hold) { h.Remaining() },
		"Err":       func(h *Hold) { h.Context().Err() },
		"Safety":    func(h *Hold) { (&Client{core: h.e.core}).Safety() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, c := heartbeatServer(t)
				s := connected(t, c)
				h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
				time.Sleep(10 * time.Second)
				// Reads and pings are answered, and no write is committed.
				stale := srv.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.DropRequest})
				ends := time.Now().Add(h.Remaining())
				for time.Now().Before(ends) {
					time.Sleep(min(2*time.Millisecond, time.Until(ends)))
					look(h) // also at the very instant of the lapse, before or after any timer
				}
				synctest.Wait()
				over(t, h, ErrSessionLost)
				assert.ErrorIs(t, h.why(), wire.ErrLapsed)
				assert.Error(t, s.Context().Err(), "the session has ended with its hold")
				stale.Remove()
				time.Sleep(3 * time.Second)
				assert.False(t, srv.Exists("/lock"), "the next session has closed it")
				require.NoError(t, c.WaitConnected(t.Context()))
				assert.Equal(t, int64(2), c.State().Epoch)
			})
		})
	}
}
