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
	list := func(first bool, items ...string) *itemsRequest {
		return &itemsRequest{items: items, initialItems: first}
	}
	for name, c := range map[string]struct {
		view  treeView
		self  string
		wish  *itemsRequest
		known map[string]string
		want  planUpdate
	}{
		"it fits":                             {treeView{members: two, owners: fits}, "a", nil, fits, planUpdate{}},
		"who is no member does nothing":       {treeView{members: two, owners: all}, "x", nil, all, planUpdate{}},
		"no plan and no list":                 {treeView{members: two}, "a", nil, nil, planUpdate{}},
		"the first writes":                    {treeView{members: two, owners: all}, "a", nil, all, planUpdate{owners: fits, delay: settle}},
		"the second later":                    {treeView{members: two, owners: all}, "b", nil, all, planUpdate{owners: fits, delay: 2 * settle}},
		"the plan is gone: it is known":       {treeView{members: two}, "a", nil, fits, planUpdate{owners: fits, delay: settle}},
		"the first list":                      {treeView{members: two}, "a", list(true, "1", "2"), nil, planUpdate{owners: fits, delay: settle}},
		"the first list, of the second":       {treeView{members: two}, "b", list(true, "1", "2"), nil, planUpdate{owners: fits, delay: 2 * settle}},
		"another list":                        {treeView{members: two, owners: fits}, "b", list(false, "1"), fits, planUpdate{owners: map[string]string{"1": "a"}, delay: settle}},
		"that list is there":                  {treeView{members: two, owners: fits}, "b", list(false, "1", "2"), fits, planUpdate{requestMet: true}},
		"that list is there, as it was known": {treeView{members: two}, "a", list(false, "1", "2"), fits, planUpdate{owners: fits, delay: settle}},
	} {
		got := nextUpdate(c.view, c.self, c.wish, c.known, settle)
		if got.owners == nil {
			got.delay = 0
		}
		require.Equal(t, c.want, got, name)
	}
	many := treeView{members: team(1, 1, 1, 1, 1, 1, 1, 1, 1), owners: all}
	require.Equal(t, 5*settle, nextUpdate(many, "i", nil, all, settle).delay, "the last ones together")
}

func TestViewOf(t *testing.T) {
	node := func(path, data string, owner, czxid int64) cache.Node {
		return cache.Node{Path: path, Data: []byte(data), Stat: framework.Stat{EphemeralOwner: owner, Czxid: czxid, Version: 7}}
	}
	v := viewOfTree("/d", map[string]cache.Node{
		"/d":   node("/d", `{"owners":{"x":["1"]}}`, 0, 1),
		"/d/x": node("/d/x", `{"weight":3}`, 5, 9),
		"/d/y": node("/d/y", `Java was here`, 5, 8),
		"/d/z": node("/d/z", `{"weight":-1}`, 5, 10),
		"/d/m": node("/d/m", `{"weight":1000000}`, 5, 11),
		"/d/n": node("/d/n", `{"weight":1000001}`, 5, 12),
		"/d/p": node("/d/p", `{"weight":1}`, 0, 3),
	})
	slices.Sort(v.names)
	require.Equal(t, treeView{
		members: []groupMember{{"y", 0, 8}, {"x", 3, 9}, {"z", 0, 10}, {"m", maxWeight, 11}, {"n", 0, 12}},
		names:   []string{"m", "n", "p", "x", "y", "z"},
		owners:  map[string]string{"1": "x"}, exists: true, version: 7, czxid: 1,
	}, v)
	require.Equal(t, treeView{}, viewOfTree("/d", nil))
}

func TestDecode(t *testing.T) {
	for _, bad := range []string{
		"[]", "{", "{}", `{"owners":null}`, `{"owners":{"a":["1"],"b":["1"]}}`, `{"owners":{"a":["1","1"]}}`,
		`{"owners":{"a":["../x"]}}`, `{"owners":{"a":[""]}}`, `{"owners":{"a":["."]}}`, "\xff",
	} {
		owners, err := decodePlan([]byte(bad))
		require.ErrorIs(t, err, ErrBadPlan, bad)
		require.Nil(t, owners, bad)
	}
	owners, err := decodePlan(nil)
	require.NoError(t, err)
	require.Nil(t, owners)
	owners, err = decodePlan([]byte(`{"owners":{}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{}, owners)
	require.Equal(t, `{"owners":{"":["3"],"a":["1","2"]}}`, string(encodePlan(map[string]string{"2": "a", "1": "a", "3": ""})))
}

// Each plan that can be read is written so that it reads as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"owners":{"":["3"],"a":["1","2"]},"later":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		owners, err := decodePlan(data)
		if err != nil || owners == nil {
			require.Nil(t, owners)
			return
		}
		again, err := decodePlan(encodePlan(owners))
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
