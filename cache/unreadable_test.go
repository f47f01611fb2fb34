package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// silent runs f with servers that send no events of a node to a client that may not READ it.
func silent(t *testing.T, f optionStory) {
	for _, profile := range []zktest.Profile{zktest.V38, zktest.V39} {
		t.Run(profile.String(), func(t *testing.T) { bothWays(t, zktest.Config{Profile: profile}, f) })
	}
}

func revoke(t *testing.T, srv *zktest.Server, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, srv.SetACL(path, zktest.ACL{Perms: 31 - 1, Scheme: "world", ID: "anyone"}))
	}
}

func grant(t *testing.T, srv *zktest.Server, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, srv.SetACL(path, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
	}
}

// createUnreadable creates a node that no client may READ, from the beginning.
func createUnreadable(t *testing.T, c *framework.Client, path string) {
	t.Helper()
	_, err := c.Create().WithACL(framework.ACL{Perms: 31 - 1, Scheme: "world", ID: "anyone"}).
		ForPath(t.Context(), path, nil)
	require.NoError(t, err)
}

// When a cache may read a node again, it relies neither on the watches nor on the list that it had before.
func TestReadableAgain(t *testing.T) {
	silent(t, func(t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption) {
		create(t, srv, "/r/a/x")
		tree := open(t, c, "/r", opts...)
		l := listenTo(t, tree)
		settle()
		l.take()
		revoke(t, srv, "/r/a")
		if opts == nil {
			require.NoError(t, srv.Delete("/r/a/x")) // because of that the cache reads the parent's Stat
		} else {
			srv.Cut(0)
			require.NoError(t, srv.Set("/r/a", []byte("new"))) // after a reconnect the event is sent whatever the permissions
		}
		settle()
		require.Contains(t, l.take(), "Failed /r/a: getData /r/a: no permission")
		createUnreadable(t, c, "/r/a/y") // no event of it is sent, and the watch for it is used up
		settle()
		grant(t, srv, "/r/a", "/r/a/y")
		time.Sleep(61 * time.Second)
		settle()
		assert.Contains(t, l.take(), "Created /r/a/y")
		same(t, srv, tree)
		require.NoError(t, srv.Set("/r/a", []byte("newer")))
		create(t, srv, "/r/a/z")
		settle()
		same(t, srv, tree)
		l.replays(t, srv, "/r")
	})
}

// When the cache finds out about changes without events: as the package documentation says.
func TestWhatNobodyTells(t *testing.T) {
	silent(t, func(t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption) {
		create(t, srv, "/r/a", "/r/b", "/r/c")
		tree := open(t, c, "/r", opts...)
		srv.ResetCounts()
		revoke(t, srv, "/r/a", "/r/b")
		require.NoError(t, srv.Set("/r/a", []byte("new")))
		require.NoError(t, srv.Delete("/r/b"))
		createUnreadable(t, c, "/r/d")
		grant(t, srv, "/r/a", "/r/d")
		create(t, srv, "/r/e")
		time.Sleep(10 * time.Minute)
		_, ok := tree.Get("/r/b")
		if opts == nil {
			assert.True(t, ok, "a deletion that nobody told of")
			assert.NotContains(t, held(tree), "/r/d")
			assert.LessOrEqual(t, reads(srv), 1, "nothing is asked when nothing is known to be unreadable: %v",
				requests(srv))
			require.NoError(t, srv.Set("/r/a", []byte("newer")))
			require.NoError(t, srv.Set("/r/d", []byte("new")))
			create(t, srv, "/r/b")
		} else {
			assert.False(t, ok, "the list of children has told of it")
			assert.Contains(t, held(tree), "/r/d")
			n, _ := tree.Get("/r/a")
			assert.Equal(t, "data of /r/a", string(n.Data))
			srv.Cut(0)
			settle()
			require.NoError(t, srv.Set("/r/a", []byte("newer")))
		}
		settle()
		same(t, srv, tree)
	})
}

// A new session compares everything.
func TestWhatNobodyToldIsFoundInTheNextSession(t *testing.T) {
	silent(t, func(t *testing.T, srv *zktest.Server, c *framework.Client, opts ...cache.TreeOption) {
		create(t, srv, "/r/a", "/r/b", "/r/c")
		tree := open(t, c, "/r", opts...)
		revoke(t, srv, "/r/a", "/r/b")
		require.NoError(t, srv.Set("/r/a", []byte("new")))
		require.NoError(t, srv.Delete("/r/b"))
		createUnreadable(t, c, "/r/d")
		grant(t, srv, "/r/a", "/r/d")
		require.NoError(t, srv.Set("/r/c", []byte("new"))) // and its reply is newer than all of those
		settle()
		expire(t, srv, c)
		settle()
		require.NoError(t, tree.WaitSynced(t.Context()))
		same(t, srv, tree)
	})
}

// The same for one node: the watch is used up, and the client sets it again with the next connection.
func TestWhatNobodyTellsOfOneNode(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V38, zktest.V39} {
		bubble(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			create(t, srv, "/n")
			node := synced(cache.NewNode(c, "/n"))(t)
			data := func() string {
				settle()
				n, _ := node.Get()
				return string(n.Data)
			}
			revoke(t, srv, "/n")
			require.NoError(t, srv.Set("/n", []byte("unseen")))
			grant(t, srv, "/n")
			require.NoError(t, srv.Set("/n", []byte("unseen, too")))
			assert.Equal(t, "data of /n", data())
			srv.Cut(0)
			settle()
			require.NoError(t, srv.Set("/n", []byte("seen")))
			assert.Equal(t, "seen", data())
		})
	}
}

// WaitSynced returns the error if the root cannot be read: an empty cache would look like a missing root.
func TestARootThatMayNotBeReadIsNotInSync(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		createUnreadable(t, c, "/secret")
		tree := started(cache.New(c, "/secret"))(t)
		kids := started(cache.NewPathChildren(c, "/secret"))(t)
		node := started(cache.NewNode(c, "/secret"))(t)
		for _, wait := range []func(context.Context) error{tree.WaitSynced, kids.WaitSynced, node.WaitSynced} {
			err := wait(t.Context())
			require.ErrorIs(t, err, framework.ErrNoAuth)
			assert.ErrorContains(t, err, "cache /secret: the root cannot be read")
		}
		grant(t, srv, "/secret")
		time.Sleep(2 * time.Minute)
		settle()
		for _, wait := range []func(context.Context) error{tree.WaitSynced, kids.WaitSynced, node.WaitSynced} {
			assert.NoError(t, wait(t.Context()))
		}
	})
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r")
		createUnreadable(t, c, "/r/secret")
		tree := started(cache.New(c, "/r"))(t)
		assert.NoError(t, tree.WaitSynced(t.Context()), "what is below is not waited for")
	})
}

// The error of a wait that ended too early names the cache, its progress, and the reason why there is no connection.
func TestADeadlineOfWaitSynced(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		srv.Stop()
		settle()
		tree := started(cache.New(c, "/r"))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := []error{tree.WaitSynced(ctx)}
		for _, err := range tree.Events(ctx) {
			if err != nil {
				errs = append(errs, err)
			}
		}
		require.Len(t, errs, 2)
		for _, err := range errs {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			for _, word := range []string{"cache /r", srv.Addr(), "connection refused"} {
				assert.ErrorContains(t, err, word)
			}
		}
		assert.ErrorContains(t, errs[0], "0 of 1 nodes")
		require.NoError(t, srv.Start())
	})
}

// A root that may be read again after a reconnect is listed before the cache is in sync.
func TestARootThatIsReadableAgainAfterAReconnect(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		tree := open(t, c, "/r", cache.WithOneShotWatches())
		revoke(t, srv, "/r")
		require.NoError(t, srv.Delete("/r/a")) // the list cannot be read
		settle()
		require.ErrorIs(t, tree.WaitSynced(t.Context()), framework.ErrNoAuth)
		hold := srv.Inject(zktest.Fault{Op: "getChildren2", PathPrefix: "/r", Action: zktest.Hold})
		srv.Cut(0)
		grant(t, srv, "/r")
		create(t, srv, "/r/b")
		<-hold.Struck()
		synctest.Wait()
		assert.False(t, tree.Progress().Synced)
		hold.Release()
		require.NoError(t, tree.WaitSynced(t.Context()))
		same(t, srv, tree)
	})
}
