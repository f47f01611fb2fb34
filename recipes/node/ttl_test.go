package node_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest"
)

// A server never deletes a container that has had no child. So the node is created together with its child: a process may end
// right after the create.
func TestTTLNodeHasItsChildFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ExtendedTypes: true})
		c := newClient(t, s)
		touch := s.Inject(zktest.Fault{Session: session(t, c), Op: "setData", PathPrefix: path, Action: zktest.Hold})
		late := s.Inject(zktest.Fault{Session: session(t, c), Op: "createTTL", PathPrefix: path, Action: zktest.Hold})
		k, err := node.NewKeeper(c, path, []byte("a"), node.WithTTL(time.Minute))
		require.NoError(t, err)
		soon(t, "made", func() bool { return s.Exists(path) })
		assert.True(t, s.Exists(path+"/touch"))
		touch.Release()
		late.Release()
		require.NoError(t, k.WaitCreated(background))
		require.NoError(t, k.Close(background))
		recipetest.Clean(t, s)
	})
}

// A server without zookeeper.extendedTypesEnabled refuses the child, and then there is no node either.
func TestTTLWithoutExtendedTypes(t *testing.T) {
	for name, there := range map[string]bool{"no node": false, "a node of a predecessor": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				if there {
					require.NoError(t, s.Create(path, nil))
				}
				k, err := node.NewKeeper(newClient(t, s), path, nil, node.WithTTL(time.Minute))
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(background, time.Hour)
				defer cancel()
				require.ErrorIs(t, k.WaitCreated(ctx), framework.ErrUnimplemented)
				assert.Equal(t, there, s.Exists("/services"), "not even a parent")
				require.NoError(t, k.Close(background))
			})
		})
	}
}

// The write to the child is refused: each attempt is logged, and the end of the keeper is not.
func TestTTLChildThatMayNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ExtendedTypes: true})
		var log recipetest.Log
		k := keep(t, newClient(t, s, framework.WithLogger(log.Logger())), "a", node.WithTTL(time.Minute))
		s.Inject(zktest.Fault{Op: zktest.OpSetData, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: 2})
		require.NoError(t, k.WaitCreated(background))
		time.Sleep(31 * time.Second)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrNoAuth)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.NoError(t, k.WaitCreated(background), "the last write was executed")
		assert.Equal(t, 2, strings.Count(log.String(), "cannot refresh a node with a TTL"), log.String())
		require.NoError(t, k.Close(background))
		assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
	})
}

// A keeper adopts the node of a predecessor that has ended before it created the child.
func TestTTLNodeWithoutAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ExtendedTypes: true})
		require.NoError(t, s.Create(path, nil))
		k := keep(t, newClient(t, s), "a", node.WithTTL(time.Minute))
		assert.True(t, s.Exists(path+"/touch"))
		require.NoError(t, k.Close(background))
	})
}
