package mutex_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Golden test: Curator for Java writes the same (docs/znodes.md). A multi-lock writes the same nodes as its parts.
func TestLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithDefaultData([]byte("10.0.0.1")))
		plain := acquire(t, mutex.New(c, path))
		_ = waiting(t, t.Context(), mutex.New(c, path, mutex.WithNodeData([]byte("host-7"))))
		revocable := acquire(t, mutex.New(c, "/locks/revocable", mutex.WithRevocation()))
		both, err := mutex.NewMulti(mutex.Of(mutex.New(c, "/locks/a")),
			mutex.Of(mutex.New(c, "/locks/b", mutex.WithoutReentry()))).Acquire(background)
		require.NoError(t, err)
		line, err := mutex.New(c, path).Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)

		type node struct {
			mode  zktest.Mode
			data  string
			owner int64
		}
		got := map[string]node{}
		for p, n := range s.Tree() {
			got[p] = node{n.Mode, string(n.Data), n.Stat.EphemeralOwner}
		}
		me := session(t, c)
		require.Equal(t, map[string]node{
			"/":                                  {zktest.Persistent, "", 0},
			"/locks":                             {zktest.Container, "", 0},
			path:                                 {zktest.Container, "", 0},
			plain.Path():                         {zktest.Ephemeral, "10.0.0.1", me},
			line[1].Path:                         {zktest.Ephemeral, "host-7", me},
			"/locks/revocable":                   {zktest.Container, "", 0},
			revocable.Path():                     {zktest.Ephemeral, "", me},
			"/locks/a":                           {zktest.Container, "", 0},
			both.Parts()[0].(*mutex.Lock).Path(): {zktest.Ephemeral, "10.0.0.1", me},
			"/locks/b":                           {zktest.Container, "", 0},
			both.Parts()[1].(*mutex.Lock).Path(): {zktest.Ephemeral, "10.0.0.1", me},
		}, got)
		const protected = `/_c_[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-lock-`
		require.Regexp(t, "^"+path+protected+"0000000000$", plain.Path())
		require.Regexp(t, "^"+path+protected+"0000000001$", line[1].Path)
		require.Regexp(t, "^/locks/revocable"+protected+"0000000000$", revocable.Path())
		require.Equal(t, s.Tree()[plain.Path()].Stat.Czxid, plain.FencingToken())

		// The data that a revoker writes.
		require.NoError(t, mutex.Revoke(background, c, revocable.Path()))
		data, _, err := s.Get(revocable.Path())
		require.NoError(t, err)
		require.Equal(t, "__REVOKE__", string(data))
		require.NoError(t, both.Release(background))
		release(t, plain)
		release(t, revocable)
	})
}
