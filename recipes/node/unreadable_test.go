package node_test

import (
	"bytes"
	"log/slog"
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

// allBut creates nodes without the permissions perms.
func allBut(perms framework.Perm) framework.Option {
	return framework.WithDefaultACL(
		framework.ACL{Perms: framework.PermAll &^ perms, Scheme: "world", ID: "anyone"})
}

// existsNeedsRead reports whether exists needs READ, as from 3.8.4 and 3.9.2 on.
func existsNeedsRead(p zktest.Profile) bool { return p == zktest.V39 || p == zktest.V38 }

// onAll runs a test on a server of each profile, with a parent that all may read.
func onAll(t *testing.T, f func(t *testing.T, s *zktest.Server, profile zktest.Profile)) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{Profile: profile})
				require.NoError(t, s.Create("/services", nil))
				f(t, s, profile)
			})
		})
	}
}

// A claim whose owner may not READ its node is released by means of getACL, for which ADMIN is enough.
func TestReleaseOfAnUnreadableClaim(t *testing.T) {
	onAll(t, func(t *testing.T, s *zktest.Server, _ zktest.Profile) {
		c := newClient(t, s, allBut(framework.PermRead))
		for range 2 {
			held := claim(t, c)
			time.Sleep(time.Second)
			require.NoError(t, held.Release(background))
			assert.False(t, s.Exists(path))
		}
		held := claim(t, c)
		require.NoError(t, s.Delete(path))
		other := newClient(t, s)
		next := claim(t, other)
		_ = held.Release(background)
		has(t, s, session(t, other), "owner")
		require.NoError(t, next.Release(background))
		recipetest.Clean(t, s)
	})
}

// With neither right a claim cannot distinguish its node from another's: it deletes neither, and the error has the missing right.
func TestReleaseOfAClaimThatMayNotBeSeen(t *testing.T) {
	onAll(t, func(t *testing.T, s *zktest.Server, profile zktest.Profile) {
		c := newClient(t, s, allBut(framework.PermRead|framework.PermAdmin))
		held := claim(t, c)
		time.Sleep(time.Second)
		err := held.Release(background)
		if !existsNeedsRead(profile) {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, framework.ErrNoAuth)
		assert.ErrorContains(t, err, "READ")
		assert.True(t, s.Exists(path))
		require.NoError(t, c.Close())
		assert.False(t, s.Exists(path))
	})
}

// A keeper that may not READ its node keeps it all the same, if it has ADMIN.
func TestKeeperOfAnUnreadableNode(t *testing.T) {
	onAll(t, func(t *testing.T, s *zktest.Server, _ zktest.Profile) {
		c := newClient(t, s, allBut(framework.PermRead))
		k := keep(t, c, "1")
		require.NoError(t, k.SetData(background, []byte("2")))
		has(t, s, session(t, c), "2")
		assert.Equal(t, node.There, state(k))
		require.NoError(t, s.Delete(path))
		time.Sleep(13 * time.Second) // the session timeout and a quarter: there is no event
		has(t, s, session(t, c), "2")
		assert.Equal(t, node.There, state(k))
		recipetest.Cut(t, s, c)
		time.Sleep(time.Second)
		assert.Equal(t, node.There, state(k))
		ends(t, s, k)
	})
}

// With neither right a keeper reports that, and logs it once.
func TestKeeperOfANodeThatMayNotBeSeen(t *testing.T) {
	onAll(t, func(t *testing.T, s *zktest.Server, profile zktest.Profile) {
		var log bytes.Buffer
		c := newClient(t, s, allBut(framework.PermRead|framework.PermAdmin),
			framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		k, err := node.NewKeeper(c, path, []byte("1"))
		require.NoError(t, err)
		err = k.WaitCreated(background)
		time.Sleep(10 * time.Minute)
		if !existsNeedsRead(profile) {
			require.NoError(t, err)
			ends(t, s, k)
			return
		}
		require.ErrorIs(t, err, framework.ErrNoAuth)
		assert.ErrorContains(t, err, "READ")
		require.ErrorIs(t, k.Status().Err, framework.ErrNoAuth)
		_ = k.Close(background)
		require.NoError(t, c.Close())
		assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		assert.False(t, s.Exists(path))
	})
}

// If another client's node is at the path and may not be read, a keeper ends immediately: it can have no node there.
func TestCloseBesideANodeThatMayNotBeSeen(t *testing.T) {
	onAll(t, func(t *testing.T, s *zktest.Server, _ zktest.Profile) {
		theirs := newClient(t, s, allBut(framework.PermRead|framework.PermAdmin))
		_, err := theirs.Create().WithMode(framework.Ephemeral).ForPath(background, path, nil)
		require.NoError(t, err)
		k, err := node.NewKeeper(newClient(t, s), path, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		began := time.Now()
		require.NoError(t, k.Close(background))
		assert.Zero(t, time.Since(began))
		assert.True(t, s.Exists(path))
	})
}

// If there may be a node of its own, and its owner may not be read, a keeper ends immediately, and the error has the missing
// right.
func TestCloseOfANodeThatMayNotBeSeen(t *testing.T) {
	onAll(t, func(t *testing.T, s *zktest.Server, profile zktest.Profile) {
		c := newClient(t, s, allBut(framework.PermRead|framework.PermAdmin))
		k, err := node.NewKeeper(c, path, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		recipetest.Cut(t, s, c) // after that it is not certain whose the node is
		time.Sleep(time.Second)
		began := time.Now()
		err = k.Close(background)
		assert.Zero(t, time.Since(began))
		if !existsNeedsRead(profile) {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.NoError(t, c.Close())
		assert.False(t, s.Exists(path))
	})
}
