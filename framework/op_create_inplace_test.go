package framework

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/zktest"
)

// standsIn makes a place in /line, and a directory /rights with one child; it returns the place's path, and the
// directory's Stat.
func standsIn(t *testing.T, c *Client) (place string, dir Stat) {
	t.Helper()
	require.NoError(t, c.CreateContainers(t.Context(), "/line"))
	require.NoError(t, c.CreateContainers(t.Context(), "/rights"))
	_, err := c.Create().ForPath(t.Context(), "/rights/other", nil)
	require.NoError(t, err)
	place, err = sequential(c).ForPath(t.Context(), "/line/lock-", nil)
	require.NoError(t, err)
	_, err = c.GetChildren().StoringStatIn(&dir).ForPath(t.Context(), "/rights")
	require.NoError(t, err)
	return place, dir
}

func sequential(c *Client) CreateBuilder {
	return c.Create().WithMode(EphemeralSequential).WithProtection()
}

func TestCreateInPlaceOf(t *testing.T) {
	for _, namespace := range []string{"", "app"} {
		t.Run(namespace, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				c = c.UsingNamespace(namespace)
				place, dir := standsIn(t, c)
				srv.ResetCounts()
				var stat Stat
				path, err := sequential(c).InPlaceOf(place, nil, &dir).StoringStatIn(&stat).
					ForPath(t.Context(), "/rights/lease-", []byte("mine"))
				require.NoError(t, err)
				assert.Equal(t, map[string]int{"multi": 1}, writes(srv))

				guid, rest, _ := zkpath.ParseProtected(zkpath.Base(path))
				was, _, _ := zkpath.ParseProtected(zkpath.Base(place))
				assert.Equal(t, was, guid)
				assert.Equal(t, "lease-0000000001", rest)
				prefix := ""
				if namespace != "" {
					prefix = "/" + namespace
				}
				tree := srv.Tree()
				assert.NotContains(t, tree, prefix+place)
				assert.Equal(t, "mine", string(tree[prefix+path].Data))
				assert.Equal(t, tree[prefix+path].Stat.Czxid, stat.Czxid)
				assert.Equal(t, Stat(tree[prefix+"/rights"].Stat), dir)
				assert.EqualValues(t, 2, dir.NumChildren)
			})
		})
	}
}

// The transaction is executed completely or not at all.
func TestCreateInPlaceOfIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*testing.T, *zktest.Server, *Client, string)
		err    error
	}{
		"the old node is gone": {func(t *testing.T, srv *zktest.Server, _ *Client, place string) {
			require.NoError(t, srv.Delete(place))
		}, ErrNodeDeleted},
		"the parent was written to": {func(t *testing.T, srv *zktest.Server, _ *Client, _ string) {
			require.NoError(t, srv.Set("/rights", []byte("data")))
		}, ErrBadVersion},
		"the parent is gone": {func(t *testing.T, srv *zktest.Server, _ *Client, _ string) {
			require.NoError(t, srv.DeleteAll("/rights"))
		}, ErrNoNode},
		"the parent must not be written to": {func(t *testing.T, _ *zktest.Server, c *Client, _ string) {
			_, err := c.SetACL().WithACL(ACL{PermAll &^ PermWrite, "world", "anyone"}).ForPath(t.Context(), "/rights")
			require.NoError(t, err)
		}, ErrNoAuth},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, cl *Client) {
				place, dir := standsIn(t, cl)
				c.before(t, srv, cl, place)
				before := dir
				_, err := sequential(cl).InPlaceOf(place, nil, &dir).ForPath(t.Context(), "/rights/lease-", nil)
				require.ErrorIs(t, err, c.err)
				assert.Equal(t, before, dir)
				for _, node := range protectedNodes(srv) {
					assert.Equal(t, place, node)
				}
				assert.Zero(t, cl.PendingCleanups())
			})
		})
	}
}

// After a lost reply the node is found by its name, or made by the second try, and nothing is known of the
// parent in the first case.
func TestCreateInPlaceOfAfterALostReply(t *testing.T) {
	for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore} {
		t.Run(action.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				place, dir := standsIn(t, c)
				srv.Inject(zktest.Fault{Op: "multi", Action: action})
				var stat Stat
				path, err := sequential(c).InPlaceOf(place, nil, &dir).StoringStatIn(&stat).
					ForPath(t.Context(), "/rights/lease-", nil)
				require.NoError(t, err)
				assert.Equal(t, []string{path}, protectedNodes(srv))
				assert.Equal(t, srv.Tree()[path].Stat.Czxid, stat.Czxid)
				if action == zktest.LoseReply {
					assert.Zero(t, dir)
				} else {
					assert.EqualValues(t, 2, dir.NumChildren)
				}
			})
		})
	}
}

// Every client can read the UUID in the old node's name. Another client's node that has it elsewhere in its name is neither
// returned after a lost request nor deleted when the caller has stopped waiting.
func TestCreateInPlaceOfBesideANodeWithItsUUID(t *testing.T) {
	for name, test := range map[string]struct {
		action  zktest.Action
		abandon bool
	}{"sent again": {zktest.CutBefore, false}, "abandoned": {zktest.Hold, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				place, dir := standsIn(t, c)
				foreign := "/rights/of" + zkpath.Base(place)
				_, err := c.Create().ForPath(t.Context(), foreign, nil)
				require.NoError(t, err)
				_, err = c.GetChildren().StoringStatIn(&dir).ForPath(t.Context(), "/rights")
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				fault := srv.Inject(zktest.Fault{Op: "multi", Action: test.action})
				if test.abandon {
					go func() {
						<-fault.Struck()
						cancel()
						synctest.Wait()
						srv.Cut(0)
						fault.Release()
					}()
				}
				path, err := sequential(c).InPlaceOf(place, nil, &dir).ForPath(ctx, "/rights/lease-", nil)
				if test.abandon {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
					assert.Equal(t, []string{path}, protectedNodes(srv))
				}
				time.Sleep(time.Minute)
				assert.Zero(t, c.PendingCleanups())
				assert.Contains(t, srv.Tree(), foreign)
			})
		})
	}
}

// A node and its sibling with the same UUID could not be distinguished: after a lost request the search would find the
// old node in place of the new one.
func TestCreateInPlaceOfASibling(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		standsIn(t, c)
		place, err := sequential(c).ForPath(t.Context(), "/rights/lock-", nil)
		require.NoError(t, err)
		var dir Stat
		_, err = c.GetChildren().StoringStatIn(&dir).ForPath(t.Context(), "/rights")
		require.NoError(t, err)
		lost := srv.Inject(zktest.Fault{Op: "multi", PathPrefix: place, Action: zktest.CutBefore})
		path, err := sequential(c).InPlaceOf(place, nil, &dir).ForPath(t.Context(), "/rights/lease-", nil)
		assert.ErrorIs(t, err, ErrBadArguments)
		assert.Empty(t, path)
		assert.Zero(t, lost.Hits(), "nothing is sent")

		// Without a UUID in the old name the new node has its own.
		lost.Remove()
		_, err = c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/rights/plain", nil)
		require.NoError(t, err)
		_, err = sequential(c).InPlaceOf("/rights/plain", nil, &dir).ForPath(t.Context(), "/rights/lease-", nil)
		assert.NoError(t, err)
	})
}

// A caller that stops waiting while the transaction is in flight leaves no node.
func TestCreateInPlaceOfWithoutItsCaller(t *testing.T) {
	for _, action := range []zktest.Action{zktest.HoldReply, zktest.LoseReply} {
		t.Run(action.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				place, dir := standsIn(t, c)
				ctx, cancel := context.WithCancel(t.Context())
				fault := srv.Inject(zktest.Fault{Op: "multi", Action: action})
				go func() {
					<-fault.Struck()
					cancel()
				}()
				_, err := sequential(c).InPlaceOf(place, nil, &dir).ForPath(ctx, "/rights/lease-", nil)
				require.ErrorIs(t, err, context.Canceled)
				fault.Release()
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Empty(t, protectedNodes(srv))
				assert.Zero(t, c.PendingCleanups())
			})
		})
	}
}

func TestCreateInPlaceOfBadArguments(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		place, dir := standsIn(t, c)
		packed := Stat{DataLength: 1}
		srv.ResetCounts()
		for name, b := range map[string]CreateBuilder{
			"no Stat":       sequential(c).InPlaceOf(place, nil, nil),
			"data":          sequential(c).InPlaceOf(place, nil, &packed),
			"no protection": c.Create().InPlaceOf(place, nil, &dir),
			"a container":   c.Create().WithMode(Container).WithProtection().InPlaceOf(place, nil, &dir),
			"or set":        sequential(c).OrSetData().InPlaceOf(place, nil, &dir),
		} {
			_, err := b.ForPath(t.Context(), "/rights/lease-", nil)
			assert.ErrorIs(t, err, ErrBadArguments, name)
		}
		_, err := sequential(c).InPlaceOf("line", nil, &dir).ForPath(t.Context(), "/rights/lease-", nil)
		assert.ErrorIs(t, err, ErrInvalidPath)
		assert.Empty(t, writes(srv))
	})
}
