package recipes

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/counter"
)

// Either language creates the number, and the other reads it and adds to it.
func TestNumber(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "counter", kit.GoToJava, kit.JavaToGo)
	const path = "/numbers/long"
	w := newWorld(t)
	ctx := kit.Context(t)
	theirs, err := w.peer.Long(ctx, "long", path)
	require.NoError(t, err)
	ours := counter.NewLong(w.client, path)
	sum, err := theirs.Add(ctx, 301, 1)
	require.NoError(t, err)
	require.EqualValues(t, 301, sum)
	data, err := w.peer.Get(ctx, path)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 1, 0x2d}, data)
	for range 3 { // Java's write below the mark of ours
		sum, err = ours.Add(ctx, -302)
		require.NoError(t, err)
		require.EqualValues(t, -1, sum)
		sum, err = theirs.Get(ctx)
		require.NoError(t, err)
		require.EqualValues(t, -1, sum)
		sum, err = theirs.Add(ctx, 302, 1)
		require.NoError(t, err)
		require.EqualValues(t, 301, sum)
	}
	first, err := theirs.Initialize(ctx, 5)
	require.NoError(t, err)
	require.False(t, first)

	// The other direction: created by Go.
	const made = "/numbers/made"
	_, err = counter.NewLong(w.client, made).Add(ctx, 1<<40)
	require.NoError(t, err)
	other, err := w.peer.Long(ctx, "made", made)
	require.NoError(t, err)
	sum, err = other.Add(ctx, 1, 1)
	require.NoError(t, err)
	require.EqualValues(t, int64(1<<40+1), sum)

	// Data of four bytes, and of none.
	const short = "/numbers/integer"
	integer := counter.NewInteger(w.client, short)
	n, err := integer.Add(ctx, 7)
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
	sum, err = w.peer.AddToInteger(ctx, short, -9)
	require.NoError(t, err)
	require.EqualValues(t, -2, sum)
	seen, err := integer.Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -2, seen.N)
	_, err = w.client.SetData().ForPath(ctx, short, []byte{})
	require.NoError(t, err)
	sum, err = w.peer.AddToInteger(ctx, short, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, sum)

	// IDs from one number, in blocks of three and four.
	const ids = "/numbers/ids"
	theirLong, err := w.peer.Long(ctx, "ids", ids)
	require.NoError(t, err)
	theirIDs, err := theirLong.IDs(ctx, "next", 3)
	require.NoError(t, err)
	ourIDs := counter.NewIDs(counter.NewLong(w.client, ids), 4)
	var all []int64
	for range 12 {
		id, err := theirIDs.Next(ctx)
		require.NoError(t, err)
		all = append(all, id)
		id, err = ourIDs.Next(ctx)
		require.NoError(t, err)
		all = append(all, id)
	}
	slices.Sort(all)
	for i, id := range all {
		require.EqualValues(t, i, id)
	}
	w.count(t, path, 0) // the mark of this library is gone after the last addition
}

// Either language sets the value, and the other is notified.
func TestSharedValue(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "shared value", kit.GoToJava, kit.JavaToGo)
	const path = "/shared-value"
	w := newWorld(t)
	ctx := kit.Context(t)
	theirs, err := w.peer.Value(ctx, "value", path, "seed")
	require.NoError(t, err)
	ours := counter.NewValue(w.client, path, counter.Bytes())
	seen, err := ours.CreateIfMissing(ctx, []byte("ours"))
	require.NoError(t, err)
	require.Equal(t, "seed", string(seen.N))
	heard := make(chan string, 10)
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for v, err := range ours.Follow(following) {
			if err == nil {
				heard <- string(v.N)
			}
		}
	}()
	require.Equal(t, "seed", kit.Receive(t, "the seed", heard))
	ok, err := theirs.TrySet(ctx, "theirs")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "theirs", kit.Receive(t, "Java's value", heard))
	_, err = ours.CompareAndSet(ctx, seen, []byte("late"))
	require.ErrorIs(t, err, framework.ErrBadVersion)
	seen, err = ours.Get(ctx)
	require.NoError(t, err)
	_, err = ours.CompareAndSet(ctx, seen, []byte("ours"))
	require.NoError(t, err)
	kit.Soon(t, "Java hears of ours", func() bool {
		text, err := theirs.Get(ctx)
		return assert.NoError(t, err) && text == "ours"
	})
	require.NoError(t, theirs.Set(ctx, "at last"))
	require.Equal(t, "ours", kit.Receive(t, "our value", heard))
	require.Equal(t, "at last", kit.Receive(t, "Java's last", heard))
}
