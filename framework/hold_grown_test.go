package framework

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A session that was granted a longer timeout after its creation counts only for the timeout of its creation: a restarted
// server, and a new leader, keep it no longer than that.
func TestAHoldEndsInTimeAfterAGrantOfMore(t *testing.T) {
	for name, members := range map[string]int{"a server that restarts": 1, "a new leader": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := zktest.RunEnsembleT(t, members, zktest.Config{TickTime: time.Second, SyncLimit: 2})
				limit := func(most time.Duration) {
					for _, m := range e.Members() {
						m.LimitSessions(most)
					}
				}
				var away atomic.Bool
				dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
					if away.Load() {
						return nil, errors.New("no way")
					}
					return e.Dial(ctx, network, addr)
				}
				limit(4 * time.Second)
				c, err := New(e.ConnectString(), WithDialer(dialer), WithSessionTimeout(20*time.Second),
					WithServerTick(time.Second), WithStaleServerBound(2*time.Second))
				require.NoError(t, err)
				defer c.Close()
				s := connected(t, c)
				require.Equal(t, 4*time.Second, s.Timeout())
				limit(20 * time.Second)
				before := s.Connections()
				e.Cut(s.ID())
				for s.Connections() == before {
					time.Sleep(10 * time.Millisecond)
				}
				h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
				assert.Equal(t, 4*time.Second, c.Safety().SessionTimeout)
				time.Sleep(time.Second)

				away.Store(true)
				leader := e.Leader()
				e.Member(leader).Stop()
				if members == 1 {
					require.NoError(t, e.Member(leader).Restart())
				}
				there := func() bool { l := e.Leader(); return l < 0 || e.Member(l).Exists("/lock") }
				for there() {
					require.Less(t, h.Remaining(), 4*time.Second)
					time.Sleep(10 * time.Millisecond)
				}
				assert.Zero(t, h.Remaining())
				over(t, h, ErrSessionLost)
			})
		})
	}
}
