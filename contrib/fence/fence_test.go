package fence_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/assignment"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/recipes/once"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// with runs f with a client of its own server, in virtual time.
func with(t *testing.T, f func(t *testing.T, server *zktest.Server, client *framework.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial), framework.WithNamespace("app"),
			framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		f(t, server, client)
	})
}

// is checks that ctx has the token, also through contexts derived from it.
func is(t *testing.T, ctx context.Context, want int64) {
	t.Helper()
	require.Positive(t, want)
	type key struct{}
	derived, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{ctx, derived, context.WithoutCancel(ctx)} {
		got, err := fence.From(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// none checks that ctx has no token.
func none(t *testing.T, ctx context.Context, why error) {
	t.Helper()
	got, err := fence.From(ctx)
	assert.ErrorIs(t, err, why)
	assert.Zero(t, got)
}

func TestFromEveryRecipe(t *testing.T) {
	with(t, func(t *testing.T, _ *zktest.Server, client *framework.Client) {
		ctx := t.Context()
		none(t, ctx, fence.ErrNoHold)

		m := mutex.New(client, "/mutex")
		lock, err := m.Acquire(ctx)
		require.NoError(t, err)
		is(t, lock.Context(), lock.FencingToken())
		again, err := m.Acquire(lock.Context())
		require.NoError(t, err)
		is(t, again.Context(), lock.FencingToken())
		require.NoError(t, again.Release(ctx))
		require.NoError(t, lock.Release(ctx))
		require.NoError(t, m.Do(ctx, func(ctx context.Context) error {
			is(t, ctx, mutex.LockOf(ctx).FencingToken())
			return m.Do(ctx, func(ctx context.Context) error {
				is(t, ctx, mutex.LockOf(ctx).FencingToken())
				return nil
			})
		}))

		write, err := rwlock.New(client, "/rw").WriteLock().Acquire(ctx)
		require.NoError(t, err)
		is(t, write.Context(), write.FencingToken())
		require.NoError(t, write.Release(ctx))

		require.NoError(t, semaphore.NewMutex(client, "/one").Do(ctx, func(ctx context.Context) error {
			is(t, ctx, semaphore.LeaseOf(ctx).ID())
			return nil
		}))

		require.NoError(t, leader.NewSelector(client, "/selector", func(ctx context.Context) error {
			is(t, ctx, leader.TermOf(ctx).FencingToken())
			return nil
		}).RunOnce(ctx))

		claim, err := node.TryClaim(ctx, client, "/claim", nil)
		require.NoError(t, err)
		is(t, claim.Context(), claim.FencingToken())
		require.NoError(t, claim.Release(ctx))

		_, err = once.New(client, "/jobs").Do(ctx, "report", once.Named("1"), func(ctx context.Context, run once.Run) error {
			is(t, ctx, run.FencingToken)
			return nil
		})
		require.NoError(t, err)
	})
}

func TestFromALatchAndAnItem(t *testing.T) {
	with(t, func(t *testing.T, _ *zktest.Server, client *framework.Client) {
		latch, err := leader.NewLatch(client, "/latch")
		require.NoError(t, err)
		term, err := latch.Await(t.Context())
		require.NoError(t, err)
		is(t, term.Context(), term.FencingToken())
		require.NoError(t, latch.Close())

		ctx, stop := context.WithCancel(t.Context())
		worked := false
		_ = assignment.New(client, "/shards", []string{"a"}).Run(ctx, func(ctx context.Context, item assignment.Item) error {
			worked = true
			is(t, ctx, item.FencingToken())
			is(t, item.Context(), item.FencingToken())
			stop()
			return nil
		})
		assert.True(t, worked)
	})
}

func TestWhatHasNoToken(t *testing.T) {
	with(t, func(t *testing.T, _ *zktest.Server, client *framework.Client) {
		ctx := t.Context()
		require.NoError(t, mutex.NewCohort(client, "/cohort").Do(ctx, func(ctx context.Context) error {
			none(t, ctx, fence.ErrNoToken)
			var typed *fence.NoTokenError
			_, err := fence.From(ctx)
			require.ErrorAs(t, err, &typed)
			assert.True(t, strings.HasPrefix(typed.Path, "/cohort/"), typed.Path)
			return nil
		}))
		rw := rwlock.New(client, "/rw")
		require.NoError(t, rw.ReadLock().Do(ctx, func(ctx context.Context) error {
			none(t, ctx, fence.ErrNoToken)
			return nil
		}))
		require.NoError(t, rw.WriteLock().Do(ctx, func(ctx context.Context) error {
			read, err := rw.ReadLock().Acquire(ctx)
			require.NoError(t, err)
			none(t, read.Context(), fence.ErrSeveral)
			return read.Release(ctx)
		}))
		require.NoError(t, semaphore.New(client, "/semaphore", 3).Do(ctx, 2, func(ctx context.Context) error {
			none(t, ctx, fence.ErrNoToken)
			return nil
		}))
		member, err := barrier.NewDouble(client, "/barrier", 1).Enter(ctx)
		require.NoError(t, err)
		none(t, member.Context(), fence.ErrNoToken)
		require.NoError(t, member.Leave(ctx))
	})
}

func TestSeveralHolds(t *testing.T) {
	with(t, func(t *testing.T, _ *zktest.Server, client *framework.Client) {
		ctx := t.Context()
		a, b := mutex.New(client, "/locks/a"), mutex.New(client, "/locks/b")
		at := func(ctx context.Context, path string, want int64) {
			t.Helper()
			got, err := fence.FromLock(ctx, path)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		require.NoError(t, a.Do(ctx, func(ctx context.Context) error {
			outer := mutex.LockOf(ctx).FencingToken()
			return b.Do(ctx, func(ctx context.Context) error {
				inner := mutex.LockOf(ctx).FencingToken()
				none(t, ctx, fence.ErrSeveral)
				at(ctx, "/locks/a", outer)
				at(ctx, "/locks/b", inner)
				_, err := fence.FromLock(ctx, "/locks")
				assert.ErrorIs(t, err, fence.ErrSeveral)
				_, err = fence.FromLock(ctx, "/locks/c")
				assert.ErrorIs(t, err, fence.ErrNoHold)
				_, err = fence.FromLock(ctx, "locks/a")
				assert.ErrorIs(t, err, fence.ErrBadArguments)
				return a.Do(ctx, func(ctx context.Context) error { // the same lock again: still both
					at(ctx, "/locks/a", outer)
					at(ctx, "/locks/b", inner)
					none(t, ctx, fence.ErrSeveral)
					return nil
				})
			})
		}))
		require.NoError(t, mutex.NewMulti(mutex.Of(a), mutex.Of(b)).Do(ctx, func(ctx context.Context) error {
			none(t, ctx, fence.ErrSeveral)
			first, err := fence.FromLock(ctx, "/locks/a")
			require.NoError(t, err)
			second, err := fence.FromLock(ctx, "/locks/b")
			require.NoError(t, err)
			assert.Less(t, first, second)
			return nil
		}))

		// A lock that has ended still counts: the other lock's token would be wrong.
		lock, err := a.Acquire(ctx)
		require.NoError(t, err)
		other, err := b.Acquire(lock.Context())
		require.NoError(t, err)
		require.NoError(t, lock.Release(ctx))
		none(t, other.Context(), fence.ErrSeveral)
		_, err = fence.FromLock(other.Context(), "/locks/a")
		assert.ErrorIs(t, err, framework.ErrReleased)
		at(other.Context(), "/locks/b", other.FencingToken())
		require.NoError(t, other.Release(ctx))
	})
}

func TestTheEndOfAHold(t *testing.T) {
	with(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		lock, err := mutex.New(client, "/lock").Acquire(t.Context())
		require.NoError(t, err)
		is(t, lock.Context(), lock.FencingToken())
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		server.Expire(session.ID())
		<-lock.Context().Done()
		none(t, lock.Context(), framework.ErrSessionLost)
		_ = lock.Release(t.Context())

		lock, err = mutex.New(client, "/lock").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		none(t, lock.Context(), framework.ErrReleased)
	})
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		resource string
		token    int64
		want     string
	}{
		{"orders", 1, ""},
		{strings.Repeat("ü", 127) + "x", 1 << 62, ""},
		{"orders", 0, "the token 0 is not positive"},
		{"orders", -1, "the token -1 is not positive"},
		{"", 1, `the resource "" is not`},
		{strings.Repeat("x", 256), 1, "is not a text of 1 to 255 bytes"},
		{"a\x00b", 1, "without NUL"},
		{"a\xff", 1, "is not a text"},
	} {
		err := fence.Check(c.resource, c.token)
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorIs(t, err, fence.ErrBadArguments)
		assert.ErrorContains(t, err, c.want)
	}
}

func TestErrors(t *testing.T) {
	outdated := &fence.OutdatedError{Resource: "orders", Token: 3, Newest: 5}
	assert.ErrorIs(t, outdated, fence.ErrOutdated)
	assert.EqualError(t, outdated, `the fencing token is outdated: 3 for "orders", where 5 was seen`)
	assert.EqualError(t, &fence.OutdatedError{Resource: "orders", Token: 3}, `the fencing token is outdated: 3 for "orders"`)
	var noContext context.Context
	_, err := fence.From(noContext)
	assert.ErrorIs(t, err, fence.ErrBadArguments)
}
