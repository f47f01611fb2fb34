package cache_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Replies that wait, because the cache was busy, have set watches. Close removes these, too. Whether a busy cache handles
// its end or the replies first is a matter of chance.
func TestCloseWhileAnswersWait(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		for i := range 300 {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", i), nil))
		}
		for range 20 {
			busy, free := make(chan struct{}, 1), make(chan struct{})
			tree, err := cache.New(c, "/r", cache.WithOneShotWatches(), cache.WithDecoder(func(
				path string, data []byte,
			) ([]byte, error) {
				if strings.HasPrefix(path, "/r/") {
					select {
					case busy <- struct{}{}:
					default:
					}
					<-free
				}
				return data, nil
			}))
			require.NoError(t, err)
			<-busy
			synctest.Wait() // the other replies have arrived
			require.Greater(t, len(srv.Watches()), 20)
			closeIt(tree, free)
			require.Empty(t, srv.Watches(), "nothing is left on the server")
		}
	})
}

// The same for the persistent watch, whose reply comes after the reply to a read.
func TestCloseWhileTheWatchWaits(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r")
		for range 50 {
			late := srv.Inject(zktest.Fault{Op: "addWatch", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
			read := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.HoldReply})
			busy, free := make(chan struct{}), make(chan struct{})
			tree, err := cache.NewTree(c, "/r", cache.WithDecoder(func(_ string, data []byte) ([]byte, error) {
				close(busy)
				<-free
				return data, nil
			}))
			require.NoError(t, err)
			time.Sleep(2 * time.Second) // the watch is set in this time
			require.Equal(t, []zktest.WatchKind{zktest.RecursiveWatch}, kinds(srv))
			read.Release()
			<-busy
			closeIt(tree, free)
			require.Empty(t, srv.Watches(), "nothing is left on the server")
			late.Remove()
			read.Remove()
		}
	})
}

// Replies that come after Close have set watches, too.
func TestCloseBeforeTheReplies(t *testing.T) {
	for op, opts := range map[zktest.Op][]cache.TreeOption{
		zktest.OpAddWatch: nil, zktest.OpGetData: watching["one-shot"],
	} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				create(t, srv, "/r/a")
				hold := srv.Inject(zktest.Fault{Op: op, PathPrefix: "/r", Action: zktest.HoldReply})
				tree, err := cache.NewTree(c, "/r", opts...)
				require.NoError(t, err)
				<-hold.Struck()
				synctest.Wait()
				require.NotEmpty(t, srv.Watches())
				require.NoError(t, tree.Close())
				hold.Release()
				settle()
				assert.Empty(t, srv.Watches())
			})
		})
	}
}

// closeIt closes a cache that is busy until free is closed.
func closeIt(tree *cache.Cache, free chan struct{}) {
	synctest.Wait() // all other replies and events have arrived
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = tree.Close()
	}()
	synctest.Wait()
	close(free)
	<-closed
	settle()
}
