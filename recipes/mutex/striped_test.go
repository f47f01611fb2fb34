package mutex_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Other processes, also in other languages, depend on the choice of the stripe: FNV-1a of 32 bits, modulo.
func TestTheStripeOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{})
		s := mutex.NewStriped(newClient(t, srv), "/stripes", 1024)
		for key, path := range map[string]string{
			"":         "/stripes/453", // 0x811c9dc5
			"a":        "/stripes/300", // 0xe40c292c
			"foobar":   "/stripes/360", // 0xbf9cf968
			"order-17": "/stripes/" + fmt.Sprint(fnv1a("order-17")%1024),
		} {
			assert.Equal(t, path, s.Of(key).Path(), key)
			assert.Same(t, s.Of(key), s.Of(key))
		}
	})
}

func fnv1a(key string) uint32 {
	h := uint32(2166136261)
	for _, b := range []byte(key) {
		h = (h ^ uint32(b)) * 16777619
	}
	return h
}

func TestStripes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{})
		ours := mutex.NewStriped(newClient(t, srv), "/stripes", 3)
		theirs := mutex.NewStriped(newClient(t, srv), "/stripes", 3)
		other := ""
		for i := 0; ours.Of(other) == ours.Of("a"); i++ {
			other = fmt.Sprint(i)
		}
		lock := acquire(t, ours.Of("a"))
		_, err := theirs.Of("a").TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		_, err = theirs.OfAll(other, "a").TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		release(t, acquire(t, theirs.Of(other)))
		release(t, lock)

		// Any keys, in any order, also two of one stripe: no caller waits for itself.
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprint("key ", i))
		}
		all, err := theirs.OfAll(keys...).Acquire(background)
		require.NoError(t, err)
		for i, part := range all.Parts() {
			require.Contains(t, part.(*mutex.Lock).Path(), fmt.Sprintf("/stripes/%d/", i), "in one order, whatever that of the keys")
		}
		_, err = ours.Of("a").TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.NoError(t, all.Release(background))
		release(t, acquire(t, ours.Of("a")))
		_, err = ours.OfAll().Acquire(background)
		require.ErrorIs(t, err, framework.ErrBadArguments)
	})
}

func TestStripesThatAreMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, zktest.RunT(t, zktest.Config{}))
		for want, all := range map[error][]*mutex.Striped{
			framework.ErrInvalidOption: {
				mutex.NewStriped(client, "/stripes", 0), mutex.NewStriped(client, "/stripes", -1),
				mutex.NewStriped(client, "/stripes", 10_001), mutex.NewStriped(client, "/stripes", 2, nil),
			},
			framework.ErrInvalidPath: {
				mutex.NewStriped(client, "stripes", 2), mutex.NewStriped(client, "/stripes/", 2),
				mutex.NewStriped(client, "/", 2),
			},
			framework.ErrNoClient: {mutex.NewStriped(nil, "/stripes", 2), {}},
		} {
			for _, s := range all {
				_, err := s.Of("a").Acquire(background)
				assert.ErrorIs(t, err, want)
				_, err = s.OfAll("a", "b").Acquire(background)
				assert.ErrorIs(t, err, want)
			}
		}
		_, err := new(mutex.Striped).OfAll().Acquire(background)
		assert.ErrorIs(t, err, framework.ErrBadArguments)
		for _, stripes := range []int{1, 10_000} {
			lock := acquire(t, mutex.NewStriped(client, "/stripes", stripes).Of("a"))
			release(t, lock)
		}
	})
}
