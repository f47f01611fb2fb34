package inspecthttp_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A holder whose process hangs is marked, with the time of its session's last request, and so is a holder without a
// connection.
func TestAHolderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var cut atomic.Bool
		holder := newClient(t, s, framework.WithSessionTimeout(30*time.Second),
			framework.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				if cut.Load() {
					return nil, context.DeadlineExceeded
				}
				return s.Dial(ctx, network, addr)
			}))
		session, err := holder.Session(background)
		require.NoError(t, err)
		stand(t, holder, "/locks/a/"+name+"0", "hangs")
		c := newClient(t, s)
		stand(t, c, "/locks/a/"+name+"1", "works")
		v := look(t, newPage(t, c, "/locks"))
		time.Sleep(time.Minute)
		l := v.line("/locks/a")
		assert.Zero(t, l.Holders[0].Heard)
		assert.False(t, l.Holders[0].Away)
		assert.Empty(t, v.top().Untold)

		began := time.Now()
		s.BlackHole(session.ID(), zktest.FromClient)
		time.Sleep(5 * time.Second)
		assert.Zero(t, v.line("/locks/a").Holders[0].Heard, "it may have nothing to say")
		for v.line("/locks/a").Holders[0].Heard == 0 {
			require.Less(t, time.Since(began), 28*time.Second)
			time.Sleep(time.Second)
		}
		since := time.UnixMilli(v.line("/locks/a").Holders[0].Heard)
		assert.WithinDuration(t, began, since, 11*time.Second, "a third of the session timeout, and a second")
		assert.Zero(t, v.line("/locks/a").Waiting[0].Heard)
		assert.False(t, v.line("/locks/a").Holders[0].Away)

		s.HealSession(session.ID())
		cut.Store(true)
		s.Cut(session.ID())
		time.Sleep(7 * time.Second)
		assert.True(t, v.line("/locks/a").Holders[0].Away)
		assert.Zero(t, v.line("/locks/a").Holders[0].Heard)
		assert.False(t, v.line("/locks/a").Waiting[0].Away)
		cut.Store(false)
		time.Sleep(20 * time.Second)
		assert.False(t, v.line("/locks/a").Holders[0].Away)
	})
}
