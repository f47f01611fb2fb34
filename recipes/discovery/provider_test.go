package discovery_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/zktest"
)

func provider(t *testing.T, c *cacheOf, opts ...discovery.ProviderOption) *discovery.Provider[string] {
	t.Helper()
	p, err := discovery.NewProvider(c, opts...)
	require.NoError(t, err)
	return p
}

// ids returns the IDs of the next n instances that a provider chooses.
func ids(t *testing.T, p *discovery.Provider[string], n int) (all string) {
	t.Helper()
	synctest.Wait()
	for range n {
		i, err := p.Instance()
		require.NoError(t, err)
		all += i.ID
	}
	return all
}

// Providers that start at the same time do not all start with the same instance.
func TestRoundRobinBeginsWithAny(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		seen := watch(t, c)
		for _, id := range []string{"a", "b", "c"} {
			defer register(t, c, web(id, "")).Unregister(background)
		}
		synctest.Wait()
		began := map[string]bool{}
		for range 100 { // one of them is missed once in 10^17
			began[ids(t, provider(t, seen), 1)] = true
		}
		assert.Len(t, began, 3)
	})
}

func TestStrategies(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		seen := watch(t, newClient(t, s))
		robin := provider(t, seen, discovery.WithStrategy(discovery.RoundRobin))
		chance := provider(t, seen, discovery.WithStrategy(discovery.Random))
		sticky := provider(t, seen, discovery.WithStrategy(discovery.Sticky))
		for _, p := range []*discovery.Provider[string]{robin, chance, sticky} {
			_, err := p.Instance()
			require.ErrorIs(t, err, discovery.ErrNoInstance)
		}
		all := map[string]*registration{}
		for _, id := range []string{"a", "b", "c"} {
			all[id] = register(t, newClient(t, s), web(id, ""))
		}
		first := ids(t, robin, 3)
		assert.Contains(t, "abcab", first, "it begins with any")
		for !strings.HasSuffix(first, "b") {
			first += ids(t, robin, 1)
		}
		// The round continues at its place when instances come and go.
		require.NoError(t, all["c"].Unregister(background))
		all["d"] = register(t, newClient(t, s), web("d", ""))
		assert.Equal(t, "dabd", ids(t, robin, 4))
		for _, id := range []string{"a", "b", "d"} { // one of them is missed once in 10^17
			assert.Contains(t, ids(t, chance, 100), id)
		}
		stays := ids(t, sticky, 1)
		assert.Equal(t, stays+stays+stays, ids(t, sticky, 3))
		require.NoError(t, all[stays].Unregister(background))
		next := ids(t, sticky, 1)
		assert.NotEqual(t, stays, next)
		all[stays] = register(t, newClient(t, s), web(stays, ""))
		assert.Equal(t, next+next, ids(t, sticky, 2), "it stays with that")
		for _, id := range []string{"a", "b", "d"} {
			require.NoError(t, all[id].Unregister(background))
		}
	})
}

// An instance with errors is not chosen for a time from the first error on, or until it has registered again.
func TestDownInstances(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		seen := watch(t, newClient(t, s))
		a, b := register(t, newClient(t, s), web("a", "")), register(t, newClient(t, s), web("b", ""))
		synctest.Wait()
		p, first := provider(t, seen), seen.Instances()[0]
		p.NoteError(first)
		assert.Contains(t, "ababa", ids(t, p, 4), "one error is none")
		time.Sleep(10 * time.Second)
		p.NoteError(first)
		assert.Equal(t, "bbb", ids(t, p, 3))
		assert.Equal(t, "b=", text(p.Instances()))
		time.Sleep(20*time.Second - time.Millisecond)
		assert.Equal(t, "bb", ids(t, p, 2))
		time.Sleep(time.Millisecond)
		assert.Equal(t, "aba", ids(t, p, 3))
		p.NoteError(first)
		assert.Equal(t, "ba", ids(t, p, 2), "it begins again")
		p.NoteError(first)
		assert.Equal(t, "bbb", ids(t, p, 3), "down again")
		time.Sleep(30 * time.Second)
		assert.Equal(t, "aba", ids(t, p, 3))

		p = provider(t, seen, discovery.WithDownAfter(1, time.Hour))
		for _, i := range seen.Instances() {
			p.NoteError(i)
		}
		_, err := p.Instance()
		require.ErrorIs(t, err, discovery.ErrNoInstance)
		require.ErrorContains(t, err, "2 are registered, of which 0 are disabled, 0 filtered out, 2 down")
		require.NoError(t, a.Unregister(background))
		time.Sleep(time.Second)
		a = register(t, newClient(t, s), web("a", ""))
		assert.Equal(t, "aa", ids(t, p, 2), "another process, perhaps")
		require.NoError(t, a.Unregister(background))
		require.NoError(t, b.Unregister(background))
	})
}

func TestDisabledAndFiltered(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		seen := watch(t, c)
		a, b := register(t, c, web("a", "1")), register(t, c, web("b", "2"))
		off := web("a", "1")
		off.Disabled = true
		all, some := provider(t, seen), provider(t, seen, discovery.WithFilter(func(i instance) bool { return i.Payload == "1" }))
		assert.Contains(t, "ababa", ids(t, all, 4))
		assert.Equal(t, "aa", ids(t, some, 2))
		both := provider(t, seen, discovery.WithFilter(func(i instance) bool { return i.ID != "a" }),
			discovery.WithFilter(func(i instance) bool { return i.Payload == "1" }))
		assert.Empty(t, both.Instances(), "filters add")
		require.NoError(t, a.Update(background, off))
		shows(t, seen, "a=1 b=2")
		assert.Equal(t, "bb", ids(t, all, 2))
		_, err := some.Instance()
		require.ErrorIs(t, err, discovery.ErrNoInstance)
		require.ErrorContains(t, err, "2 are registered, of which 1 are disabled, 1 filtered out, 0 down")
		require.NoError(t, a.Update(background, web("a", "1")))
		assert.Equal(t, "aa", ids(t, some, 2))
		require.NoError(t, a.Unregister(background))
		require.NoError(t, b.Unregister(background))
	})
}

func TestProviderArguments(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		seen := watch(t, newClient(t, s))
		for _, opt := range []discovery.ProviderOption{
			nil, discovery.WithStrategy(3), discovery.WithStrategy(-1), discovery.WithDownAfter(0, time.Second),
			discovery.WithDownAfter(1, 0), discovery.WithDownAfter(1, -1), discovery.WithFilter[string](nil),
			discovery.WithFilter(func(discovery.Instance[int]) bool { return true }),
		} {
			_, err := discovery.NewProvider(seen, opt, discovery.WithFilter(func(instance) bool { return true }))
			require.ErrorIs(t, err, framework.ErrInvalidOption)
		}
	})
}
