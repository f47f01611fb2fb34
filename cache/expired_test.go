package cache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A member without a quorum reports the session expired. It cannot know that, and the session continues: the cache reads
// again (found by the simulation: it waited for the end of the session, which never came).
func TestAReadOnlyMemberCallsTheSessionExpired(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V37, zktest.V35} {
		for _, op := range []zktest.Op{"getData", "getChildren2", "multiRead"} {
			t.Run(profile.String()+" "+string(op), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := zktest.RunEnsembleT(t, 3, zktest.Config{
						Profile: profile, ReadOnlyMode: true, LocalSessions: true,
					})
					member := (e.Leader() + 1) % 3
					near := e.Member(member)
					require.NoError(t, near.Create("/root/a", []byte("a")))
					c, err := framework.New(near.Addr(), framework.WithDialer(e.Dial),
						framework.WithSessionTimeout(40*time.Second), framework.WithReadOnly())
					require.NoError(t, err)
					defer c.Close()
					tree := open(t, c, "/root")
					e.Partition(member, e.Leader(), (e.Leader()+2)%3)
					said := near.Inject(zktest.Fault{Op: op, PathPrefix: "/root", Action: zktest.ReplyError,
						Err: zktest.ErrSessionExpired})
					for c.State().State != framework.ReadOnly {
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(time.Second)
					said.Remove()
					require.NoError(t, e.Heal())
					time.Sleep(10 * time.Second)
					require.NoError(t, near.Set("/root/a", []byte("b")))
					time.Sleep(time.Minute)
					a, _ := tree.Get("/root/a")
					require.Equal(t, "b", string(a.Data), "said %d times", said.Hits())
				})
			})
		}
	}
}
