package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// One client packs its data, and the others, like Curator for Java by default, do not. No contender depends on the data of
// another's node, so all acquire the lock.
func TestPackedAndPlainDataInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var w witness
		hooks := w.hooks("packs")
		packs := newClient(t, s, framework.WithCompression(),
			framework.WithHooks(framework.Hooks{Wait: hooks.Wait}))
		plain := newClient(t, s)
		mine := mutex.New(packs, path, mutex.WithNodeData([]byte("packed")))
		theirs := mutex.New(plain, path, mutex.WithNodeData([]byte("10.0.0.1")))

		first := acquire(t, theirs)
		second := waiting(t, background, mine)
		require.Len(t, w.read(), 1)
		line, err := mine.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.Equal(t, "10.0.0.1", string(line[0].Data), "as it is")
		require.Equal(t, "packed", string(line[1].Data), "unpacked")
		holder, _, err := mine.Holder(background)
		require.NoError(t, err)
		require.Equal(t, line[0], holder)
		third := waiting(t, background, theirs)
		fourth := waiting(t, background, mine)
		fifth := waiting(t, background, mine)
		require.Equal(t, []string{
			"packs: waits behind lock-0000000002 with \"10.0.0.1\", inside <nil> acquire",
			"packs: waits behind lock-0000000003 with \"packed\", inside <nil> acquire",
		}, w.read())

		// Another client asks for the lock, with raw data, during the wait.
		require.NoError(t, mutex.Revoke(background, plain, line[1].Path))
		second.Waits()
		release(t, first)
		for _, waiter := range []*call{second, third, fourth, fifth} {
			release(t, waiter.End().OK())
		}
		clean(t, s, path)
	})
}

// A request to release the lock is written like all data: packed if the client packs, as Curator does. A client that packs its
// writes also understands requests that are not packed.
func TestRevocationPackedAndPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		packs, plain := newClient(t, s, framework.WithCompression()), newClient(t, s)

		lock := acquire(t, mutex.New(packs, path, mutex.WithRevocation()))
		require.NoError(t, mutex.Revoke(background, packs, lock.Path()))
		require.True(t, revoked(lock))
		data, err := packs.GetData().ForPath(background, lock.Path())
		require.NoError(t, err)
		require.Equal(t, "__REVOKE__", string(data))
		release(t, lock)

		for _, revoke := range []func(context.Context, *mutex.Lock) error{
			func(ctx context.Context, l *mutex.Lock) error { return mutex.Revoke(ctx, plain, l.Path()) },
			func(ctx context.Context, l *mutex.Lock) error { // Curator with enableCompression
				_, err := plain.SetData().Compressed().ForPath(ctx, l.Path(), []byte("__REVOKE__"))
				return err
			},
		} {
			lock = acquire(t, mutex.New(packs, path, mutex.WithRevocation(), mutex.WithNodeData([]byte("me"))))
			require.NoError(t, s.Set(lock.Path(), []byte("hello")))
			require.False(t, revoked(lock))
			s.ResetCounts()
			time.Sleep(10 * time.Second)
			require.Zero(t, s.Counts()["getData"], "what is no request is not read again and again")
			require.False(t, revoked(lock))
			require.NoError(t, revoke(background, lock))
			require.True(t, revoked(lock))
			release(t, lock)
		}
		clean(t, s, path)
	})
}
