package assignment

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
)

func TestNext(t *testing.T) {
	const settle = time.Second
	two := team(1, 1)
	fits := map[string]string{"1": "a", "2": "b"}
	all := map[string]string{"1": "a", "2": "a"}
	list := func(first bool, items ...string) *wish { return &wish{items: items, first: first} }
	for name, c := range map[string]struct {
		view  view
		self  string
		wish  *wish
		known map[string]string
		want  step
	}{
		"it fits":                             {view{members: two, owners: fits}, "a", nil, fits, step{}},
		"who is no member does nothing":       {view{members: two, owners: all}, "x", nil, all, step{}},
		"no plan and no list":                 {view{members: two}, "a", nil, nil, step{}},
		"the first writes":                    {view{members: two, owners: all}, "a", nil, all, step{owners: fits, after: settle}},
		"the second later":                    {view{members: two, owners: all}, "b", nil, all, step{owners: fits, after: 2 * settle}},
		"the plan is gone: it is known":       {view{members: two}, "a", nil, fits, step{owners: fits, after: settle}},
		"the first list":                      {view{members: two}, "a", list(true, "1", "2"), nil, step{owners: fits, after: settle}},
		"the first list, of the second":       {view{members: two}, "b", list(true, "1", "2"), nil, step{owners: fits, after: 2 * settle}},
		"another list":                        {view{members: two, owners: fits}, "b", list(false, "1"), fits, step{owners: map[string]string{"1": "a"}, after: settle}},
		"that list is there":                  {view{members: two, owners: fits}, "b", list(false, "1", "2"), fits, step{granted: true}},
		"that list is there, as it was known": {view{members: two}, "a", list(false, "1", "2"), fits, step{owners: fits, after: settle}},
	} {
		got := next(c.view, c.self, c.wish, c.known, settle)
		if got.owners == nil {
			got.after = 0
		}
		require.Equal(t, c.want, got, name)
	}
	many := view{members: team(1, 1, 1, 1, 1, 1, 1, 1, 1), owners: all}
	require.Equal(t, 5*settle, next(many, "i", nil, all, settle).after, "the last ones together")
}

func TestViewOf(t *testing.T) {
	node := func(path, data string, owner, czxid int64) cache.Node {
		return cache.Node{Path: path, Data: []byte(data), Stat: framework.Stat{EphemeralOwner: owner, Czxid: czxid, Version: 7}}
	}
	v := viewOf("/d", map[string]cache.Node{
		"/d":   node("/d", `{"owners":{"x":["1"]}}`, 0, 1),
		"/d/x": node("/d/x", `{"weight":3}`, 5, 9),
		"/d/y": node("/d/y", `Java was here`, 5, 8),
		"/d/z": node("/d/z", `{"weight":-1}`, 5, 10),
		"/d/p": node("/d/p", `{"weight":1}`, 0, 3),
	})
	slices.Sort(v.names)
	require.Equal(t, view{
		members: []member{{"y", 0, 8}, {"x", 3, 9}, {"z", 0, 10}},
		names:   []string{"p", "x", "y", "z"},
		owners:  map[string]string{"1": "x"}, exists: true, version: 7, czxid: 1,
	}, v)
	require.Equal(t, view{}, viewOf("/d", nil))
}

func TestDecode(t *testing.T) {
	for _, bad := range []string{
		"[]", "{", "{}", `{"owners":null}`, `{"owners":{"a":["1"],"b":["1"]}}`, `{"owners":{"a":["1","1"]}}`,
		`{"owners":{"a":["../x"]}}`, `{"owners":{"a":[""]}}`, `{"owners":{"a":["."]}}`, "\xff",
	} {
		owners, err := decode([]byte(bad))
		require.ErrorIs(t, err, ErrBadPlan, bad)
		require.Nil(t, owners, bad)
	}
	owners, err := decode(nil)
	require.NoError(t, err)
	require.Nil(t, owners)
	owners, err = decode([]byte(`{"owners":{}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{}, owners)
	require.Equal(t, `{"owners":{"":["3"],"a":["1","2"]}}`, string(encode(map[string]string{"2": "a", "1": "a", "3": ""})))
}

// Whatever is read as a plan is written as one that reads the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"owners":{"":["3"],"a":["1","2"]},"later":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		owners, err := decode(data)
		if err != nil || owners == nil {
			require.Nil(t, owners)
			return
		}
		again, err := decode(encode(owners))
		require.NoError(t, err)
		require.Equal(t, owners, again)
	})
}

func TestZeroItem(t *testing.T) {
	var i Item
	require.Zero(t, i.FencingToken())
	require.Zero(t, i.Remaining())
	require.False(t, i.Valid())
	require.Empty(t, i.Name())
	require.Empty(t, i.Path())
	require.Error(t, i.Context().Err())
	_, err := (&framework.Client{}).Transaction(context.Background(), i.Guard())
	require.Error(t, err)
}
