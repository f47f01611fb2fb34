package framework

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A delete leaves a mark: a client that watches the mark gets its event before the event of the deletion, and no client
// ever finds the mark. Whatever the server replies, the node is deleted.
func TestDeleteLeavesAMark(t *testing.T) {
	const mark = "/a-mark"
	for _, tc := range []struct {
		name   string
		before func(srv *zktest.Server)
		marked bool
		counts map[zktest.Op]int
	}{
		{"usual", func(*zktest.Server) {}, true, map[zktest.Op]int{"multi": 1}},
		{
			"the mark is there", func(srv *zktest.Server) { _ = srv.Create(mark, nil) },
			true, map[zktest.Op]int{"multi": 1, "delete": 1}, // this mark is another client's
		},
		{
			"the node is not there", func(srv *zktest.Server) { _ = srv.Delete("/a") },
			false, map[zktest.Op]int{"multi": 1, "delete": 1},
		},
		{
			"refused as a whole", func(srv *zktest.Server) {
				srv.Inject(zktest.Fault{Op: "multi", Action: zktest.ReplyError, Err: zktest.ErrUnimplemented})
			}, false, map[zktest.Op]int{"multi": 1, "delete": 1},
		},
		{
			"not executed", func(srv *zktest.Server) {
				srv.Inject(zktest.Fault{Op: "multi", Action: zktest.CutBefore})
			}, false, map[zktest.Op]int{"multi": 1, "delete": 1, "connect": 1},
		},
		{
			"executed without an answer", func(srv *zktest.Server) {
				srv.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply})
			}, true, map[zktest.Op]int{"multi": 1, "delete": 1, "connect": 1},
		},
		{
			"by nobody", func(srv *zktest.Server) {
				_ = srv.SetACL("/", zktest.ACL{Perms: int32(PermRead | PermDelete), Scheme: "world", ID: "anyone"})
			}, false, map[zktest.Op]int{"multi": 1, "delete": 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, background := range []bool{false, true} {
				bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
					ctx := t.Context()
					watcher := dial(t, srv)
					connected(t, watcher)
					require.NoError(t, srv.Create("/a", nil))
					tc.before(srv)
					marked, err := watcher.CheckExists().WithWatch().InBackground().ForPath(ctx, mark).Wait(ctx)
					require.NoError(t, err)
					own, err := c.Session(ctx)
					require.NoError(t, err)
					before := srv.CountsOf(own.ID())
					b := c.Delete().Quietly().Guaranteed().LeavingMark("-mark")
					if background && tc.counts["connect"] > 0 {
						return // it is as any delete whose connection is lost
					} else if background {
						require.NoError(t, errOf(b.InBackground().ForPath(ctx, "/a").Wait(ctx)))
					} else {
						require.NoError(t, b.ForPath(ctx, "/a"))
					}
					synctest.Wait()
					counts := srv.CountsOf(own.ID())
					for op, n := range before {
						if counts[op] -= n; counts[op] == 0 {
							delete(counts, op)
						}
					}
					delete(counts, "getData") // the read that finds out whether the server is standalone
					assert.Equal(t, tc.counts, counts)
					assert.False(t, srv.Exists("/a"))
					if tc.name != "the mark is there" {
						assert.False(t, srv.Exists(mark))
						select {
						case ev := <-marked.Watch.C:
							assert.True(t, tc.marked)
							assert.Equal(t, EventNodeCreated, ev.Type)
						default:
							assert.False(t, tc.marked)
						}
					}
					assert.Zero(t, c.PendingCleanups())
				})
			}
		})
	}
}

// The caller has stopped waiting while the transaction is in flight, and the server refuses it: the node is deleted all the
// same.
func TestDeleteOfALatecomerWithAMark(t *testing.T) {
	for name, refuse := range map[string]func(srv *zktest.Server){
		"executed": func(*zktest.Server) {},
		"refused":  func(srv *zktest.Server) { _ = srv.Create("/a-mark", nil) },
		"lost":     func(srv *zktest.Server) { srv.Cut(0) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				require.NoError(t, srv.Create("/a", nil))
				hold := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := c.Delete().Quietly().Guaranteed().LeavingMark("-mark").ForPath(ctx, "/a")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, 1, c.PendingCleanups())
				refuse(srv)
				hold.Release()
				time.Sleep(time.Minute)
				assert.False(t, srv.Exists("/a"))
				assert.Zero(t, c.PendingCleanups())
			})
		})
	}
}

func TestMarkOfABadDelete(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *Client) {
		ctx := t.Context()
		for _, b := range []DeleteBuilder{c.Delete().WithVersion(1), c.Delete().DeletingChildrenIfNeeded()} {
			require.ErrorIs(t, b.LeavingMark("-mark").ForPath(ctx, "/a"), ErrBadArguments)
		}
		require.ErrorIs(t, c.Delete().LeavingMark("/").ForPath(ctx, "/a"), ErrInvalidPath)
	})
}
