package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A caller that has seen the new connection, and then calls WaitSynced, sees the changes of the outage.
func TestSyncedAfterAReconnect(t *testing.T) {
	for n := range 4 {
		// V35 has no persistent watches.
		expire, profile := n%2 == 1, []zktest.Profile{zktest.V39, zktest.V35}[n/2]
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{Profile: profile})
			require.NoError(t, s.Create("/r", nil))
			client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
			require.NoError(t, err)
			defer client.Close()
			require.NoError(t, client.WaitConnected(t.Context()))
			caches := map[string]interface {
				WaitSynced(ctx context.Context) error
				Close() error
				Len() int
			}{}
			for name, opts := range map[string][]cache.Option{"a": nil, "b": {cache.WithoutData()}} {
				c, err := cache.NewPathChildren(client, "/r", opts...)
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.WaitSynced(t.Context()))
				caches[name] = c
			}
			states := client.StateChanges(t.Context())
			<-states
			for n := range 100 {
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				away := s.Inject(zktest.Fault{Op: "connect", Action: zktest.Hold})
				s.Cut(session.ID())
				<-away.Struck()
				require.NoError(t, s.Create(fmt.Sprint("/r/", n), nil))
				if expire && n%10 == 0 {
					s.Expire(session.ID())
				}
				away.Release()
				for (<-states).State != framework.Reconnected {
				}
				start := time.Now()
				for name, c := range caches {
					require.NoError(t, c.WaitSynced(t.Context()))
					require.Equal(t, n+1, c.Len(), name)
				}
				require.Less(t, time.Since(start), time.Second/2, "no report is waited for in vain")
				time.Sleep(time.Second)
			}
		})
	}
}
