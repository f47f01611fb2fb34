package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A server that reports every session expired as soon as it is opened does not get a flood of new ones (found by the
// simulation: it did, without a pause).
func TestSessionsThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{Pace: time.Millisecond})
		// the read with which a session begins
		broken := srv.Inject(
			zktest.Fault{Op: "getData", Action: zktest.ReplyError, Err: zktest.ErrSessionExpired, Times: -1},
		)
		c := dial(t, srv)
		time.Sleep(time.Minute)
		n := srv.Counts()["connect"]
		assert.Greater(t, n, 10)
		assert.Less(t, n, 200)
		broken.Remove()
		time.Sleep(10 * time.Second)
		require.NoError(t, c.WaitConnected(t.Context()))
		_, err := c.GetData().ForPath(t.Context(), "/")
		require.NoError(t, err)
	})
}

// Sessions that are lost a minute apart do not end in quick succession, however many they are: no pause precedes the next.
func TestSessionsThatEndFarApartCostNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{Pace: time.Millisecond})
		c := dial(t, srv, WithFenceGrace(0))
		for range 15 {
			s := connected(t, c)
			time.Sleep(time.Minute)
			srv.Expire(s.ID())
			<-s.Done()
			lost := time.Now()
			connected(t, c)
			require.Less(t, time.Since(lost), 50*time.Millisecond)
		}
	})
}
