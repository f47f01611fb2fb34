package cache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// withLeaves opens a cache on a server with ten leaves, up to the moment when the cache has read them and sets the watches
// of their children. then is called before the server executes that.
func withLeaves(t *testing.T, profile zktest.Profile, fault zktest.Fault,
	then func(t *testing.T, srv *zktest.Server, c *framework.Client)) {
	bubble(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		for i := range 10 {
			create(t, srv, fmt.Sprintf("/r/%d", i))
		}
		fault.Op = zktest.OpSetWatches
		hold := srv.Inject(fault)
		tree := started(cache.NewTree(c, "/r", cache.WithOneShotWatches()))(t)
		<-hold.Struck()
		synctest.Wait()
		if fault.Action == zktest.Hold {
			assert.False(t, tree.Progress().Synced, "children may have been created")
		}
		then(t, srv, c)
		hold.Release()
		settle()
		require.NoError(t, tree.WaitSynced(t.Context()))
		same(t, srv, tree)
		srv.Cut(0)
		settle()
		create(t, srv, "/r/6/late", "/r/7/late")
		settle()
		same(t, srv, tree)
		paths := keys(tree.All())
		require.NoError(t, tree.Close())
		synctest.Wait()
		assert.Empty(t, srv.Watches(), "of %v", paths)
	})
}

// Changes of leaves after their read, and before their watches are set, are not missed.
func TestLeavesThatChangeBeforeTheirWatchesAreSet(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V35, zktest.V37, zktest.V39} {
		t.Run(profile.String(), func(t *testing.T) {
			withLeaves(t, profile, zktest.Fault{Action: zktest.Hold},
				func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
					create(t, srv, "/r/1/child", "/r/2/child/grandchild", "/r/4/transient")
					require.NoError(t, srv.DeleteAll("/r/4/transient"))
					require.NoError(t, srv.Delete("/r/3"))
					require.NoError(t, srv.Delete("/r/5"))
					create(t, srv, "/r/5/child")
				})
		})
	}
}

func TestLeavesOfAServerThatRefusesToSetWatches(t *testing.T) {
	withLeaves(t, zktest.V35, zktest.Fault{Action: zktest.ReplyError, Err: zktest.ErrUnimplemented},
		func(t *testing.T, srv *zktest.Server, _ *framework.Client) { create(t, srv, "/r/1/child") })
}

func TestARefusedSetWatchesIsNotRepeated(t *testing.T) {
	bubble(t, zktest.Config{Profile: zktest.V35}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		refusal := srv.Inject(zktest.Fault{
			Op: zktest.OpSetWatches, Action: zktest.ReplyError, Err: zktest.ErrBadArguments, Times: -1,
		})
		create(t, srv, "/r")
		tree := open(t, c, "/r")
		for _, dir := range []string{"/r/a", "/r/b"} {
			for i := range 10 {
				create(t, srv, fmt.Sprintf("%s/%d", dir, i))
			}
			settle()
			same(t, srv, tree)
		}
		assert.Equal(t, 1, refusal.Hits())
	})
}

// A lost reply, or a refusal for a temporary reason, does not mean that the server has no setWatches: the watches of later
// leaves are set by one request again.
func TestALostSetWatchesIsNoRefusal(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply, zktest.ReplyError} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			bubble(t, zktest.Config{Profile: zktest.V35}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				fault := srv.Inject(zktest.Fault{Op: zktest.OpSetWatches, Action: action, Err: zktest.ErrThrottledOp})
				create(t, srv, "/r")
				tree := open(t, c, "/r")
				for _, dir := range []string{"/r/a", "/r/b"} {
					srv.ResetCounts()
					for i := range 10 {
						create(t, srv, fmt.Sprintf("%s/%d", dir, i))
					}
					settle()
					same(t, srv, tree)
					require.Equal(t, 1, fault.Hits())
				}
				assert.Equal(t, 1, srv.Counts()[zktest.OpSetWatches], "for the leaves of /r/b")
			})
		})
	}
}

func TestLeavesWhenTheConnectionIsLost(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			withLeaves(t, zktest.V35, zktest.Fault{Action: action},
				func(t *testing.T, srv *zktest.Server, _ *framework.Client) { create(t, srv, "/r/1/child") })
		})
	}
}

// A user's persistent watch on a leaf is not replaced, before 3.9, and serves the cache, too.
func TestLeavesWithPersistentWatches(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V37, zktest.V39} {
		t.Run(profile.String(), func(t *testing.T) {
			bubble(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				for i := range 10 {
					create(t, srv, fmt.Sprintf("/r/%d", i))
				}
				own, err := c.Watches().Add().WithMode(framework.PersistentWatch).ForPath(t.Context(), "/r/1")
				require.NoError(t, err)
				tree := open(t, c, "/r", cache.WithOneShotWatches())
				for range 2 {
					create(t, srv, "/r/1/child")
					settle()
					same(t, srv, tree)
					assert.Equal(t, framework.EventNodeChildrenChanged, (<-own.C).Type)
					require.NoError(t, srv.Delete("/r/1/child"))
					settle()
					same(t, srv, tree)
					assert.Equal(t, framework.EventNodeChildrenChanged, (<-own.C).Type)
				}
			})
		})
	}
}

// Two caches of one client share the server's watches, and end their own.
func TestLeavesOfTwoCaches(t *testing.T) {
	bubble(t, zktest.Config{Profile: zktest.V35}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		for i := range 10 {
			create(t, srv, fmt.Sprintf("/r/%d", i))
		}
		a, b := open(t, c, "/r"), open(t, c, "/r")
		require.NoError(t, a.Close())
		create(t, srv, "/r/1/child")
		require.NoError(t, srv.Set("/r/2", []byte("new")))
		settle()
		same(t, srv, b)
		require.NoError(t, b.Close())
		synctest.Wait()
		assert.Empty(t, srv.Watches())
	})
}

// Lists set the watches of a few leaves; one request sets the watches of more.
func TestAFewLeavesAreListed(t *testing.T) {
	for leaves, lists := range map[int]int{1: 1, 3: 3, 4: 0} {
		bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			for i := range leaves {
				create(t, srv, fmt.Sprintf("/r/%d", i))
			}
			_, err := c.CheckExists().ForPath(t.Context(), "/r") // the leaves have not changed since a reply
			require.NoError(t, err)
			srv.ResetCounts()
			open(t, c, "/r", cache.WithOneShotWatches())
			assert.Equal(t, 1+lists, srv.Counts()["getChildren2"], "%d leaves", leaves)
		})
	}
}

// A request for watches of leaves is never larger than a server accepts, however long the paths are.
func TestLeavesWithLongPaths(t *testing.T) {
	const limit = 100 << 10
	bubble(t, zktest.Config{Profile: zktest.V35, MaxFrame: limit}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		for i := range 300 {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%0900d", i), nil))
		}
		c := dial(t, srv, framework.WithMaxFrame(limit))
		_, err := c.CheckExists().ForPath(t.Context(), "/r")
		require.NoError(t, err)
		srv.ResetCounts()
		tree := open(t, c, "/r")
		same(t, srv, tree)
		assert.Equal(t, 1, srv.Counts()["getChildren2"], "the leaves are not listed: %v", requests(srv))
	})
}

// The connection is lost while leaves that were read wait for leaves whose reads are still to come. The load after that is
// exact: a transaction is shown as a whole.
func TestLeavesThatWaitWhenTheConnectionIsLost(t *testing.T) {
	for _, replies := range []int{0, 1, 5, 9} {
		t.Run(fmt.Sprint(replies), func(t *testing.T) {
			bubble(t, zktest.Config{Pace: time.Millisecond}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				for i := range 10 {
					create(t, srv, fmt.Sprintf("/r/%d", i))
				}
				writer := dial(t, srv)
				_, err := c.CheckExists().ForPath(t.Context(), "/r")
				require.NoError(t, err)
				srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/r/", After: replies, Action: zktest.CutBefore})
				tree := open(t, c, "/r", cache.WithOneShotWatches())
				settle()
				same(t, srv, tree)
				hold := srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/r/new", Action: zktest.Hold})
				op := writer.TransactionOp()
				_, err = writer.Transaction(t.Context(), op.Delete().ForPath("/r/1"), op.Create().ForPath("/r/new", nil))
				require.NoError(t, err)
				<-hold.Struck()
				synctest.Wait()
				assert.Contains(t, keys(tree.All()), "/r/1")
				hold.Release()
				settle()
				same(t, srv, tree)
			})
		})
	}
}
