package framework

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// unreadable allows everyone everything on a node, except to read it.
var unreadable = zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}

// Since ZooKeeper 3.8.4 and 3.9.2 exists needs READ. A chroot that may not be read is there all the same.
func TestChrootThatMayNotBeRead(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			bubbleOf(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, root *Client) {
				ctx := t.Context()
				plant(t, srv, "/app")
				require.NoError(t, srv.SetACL("/app", unreadable))
				c := below(t, srv, "/app")
				assert.NoError(t, c.Ensure(ctx, "/"))
				assert.NoError(t, c.CreateContainers(ctx, "/"))
				_, err := c.Create().ForPath(ctx, "/", nil)
				assert.ErrorIs(t, err, ErrNodeExists)
				_, err = c.Create().OrSetData().ForPath(ctx, "/", []byte("set"))
				assert.NoError(t, err)
			})
		})
	}
}

// A protected create finds its node after a lost reply even if it may not read it, as long as it has ADMIN, which getACL
// needs: the reply to getACL has the same Stat.
func TestProtectedCreateOfAnUnreadableNode(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			bubbleOf(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, c *Client) {
				ctx := t.Context()
				plant(t, srv, "/locks")
				create := func(perms Perm) (string, Stat, error) {
					srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
					var stat Stat
					path, err := c.Create().WithMode(EphemeralSequential).WithProtection().StoringStatIn(&stat).
						WithACL(ACL{Perms: perms, Scheme: "world", ID: "anyone"}).ForPath(ctx, "/locks/lock-", nil)
					return path, stat, err
				}
				path, stat, err := create(PermAll &^ PermRead)
				require.NoError(t, err)
				assert.Equal(t, []string{path}, protectedNodes(srv))
				assert.Equal(t, Stat(srv.Tree()[path].Stat), stat)
				require.NoError(t, c.Delete().ForPath(ctx, path))

				_, _, err = create(PermCreate | PermDelete | PermWrite)
				if profile == zktest.V39 || profile == zktest.V38 { // no reply proves whose node it is
					assert.ErrorIs(t, err, ErrNoAuth)
					assert.ErrorIs(t, err, ErrConnectionLoss)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}
