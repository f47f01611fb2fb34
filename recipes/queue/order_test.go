package queue

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/zkpath"
)

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		order Order
		opts  []PutOption
		want  string
	}{
		{FIFO, nil, "queue-"},
		{ByPriority, nil, "queue-100000000"},
		{ByPriority, []PutOption{Priority(math.MaxInt32)}, "queue-17FFFFFFF"},
		{ByPriority, []PutOption{Priority(math.MinInt32)}, "queue-080000000"},
		{ByDelay, nil, "queue-|00000000|"},
		{ByDelay, []PutOption{Due(time.Time{})}, "queue-|00000000|"},
		{ByDelay, []PutOption{Due(time.UnixMilli(1))}, "queue-|00000001|"},
		{ByDelay, []PutOption{Due(time.UnixMilli(math.MaxInt64))}, "queue-|7FFFFFFFFFFFFFFF|"},
		{ByID, []PutOption{ID("a|b/c")}, "queue-|a_b_c|"},
		{ByID, []PutOption{ID("ä")}, "queue-|ä|"},
	} {
		got, err := c.order.namePrefix(c.opts)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		require.Equal(t, got, withoutNumber(got+"0000000012"))
	}
	for _, name := range []string{"queue-", "queue-12", "queue--2147483648", "queue-000000000x", ""} {
		require.Equal(t, "queue-", withoutNumber(name), name)
	}
}

func TestSort(t *testing.T) {
	for _, c := range []struct {
		order Order
		want  string
	}{
		{FIFO, "queue-0000000009 queue-0000000010 queue-1000000050000000001"},
		{ByPriority, "queue-080000000000000009 queue-0FFFFFFFF0000000007 queue-1000000000000000008 " +
			"queue-1000000010000000001 queue-17FFFFFFF0000000003"},
		{ByDelay, "queue-|00000000|0000000009 queue-|zz|0000000003 queue-|00000005|0000000004 " +
			"queue-|18BCFE56800|0000000002 queue-|118BCFE56800|0000000001"},
		{ByID, "queue-|z|0000000001 queue-|a|0000000002 queue-0000000003 queue-|a|b|0000000004"},
	} {
		want := strings.Fields(c.want)
		if c.order == ByID { // "b|" is no id, but disturbs the order, as in Curator
			want = []string{"queue-|z|0000000001", "queue-|a|0000000002", "queue-0000000003", "queue-|a|b|0000000004"}
		}
		got := slices.Clone(want)
		slices.Reverse(got)
		c.order.sortNames(got)
		require.Equal(t, want, got)
	}
}

func TestBacklog(t *testing.T) {
	first := func(int) int { return 0 }
	last := func(n int) int { return n - 1 }
	now := time.UnixMilli(100)

	b := itemBacklog{order: FIFO}
	b.replaceItems([]string{"queue-2", "foreign", "queue-1", "queue-3", "queue-4"}, []string{"queue-2", "queue-9"})
	require.Equal(t, "queue-2", b.firstLocked)
	require.False(t, b.isOutdated())
	name, _ := b.next(now, last)
	require.Equal(t, "queue-1", name)
	b.recordLoss()
	name, _ = b.next(now, last)
	require.Equal(t, "queue-4", name, "the second of those that are left")
	b.recordWin()
	b.excludeItem("queue-3")
	b.replaceItems([]string{"queue-3", "queue-2"}, nil)
	require.Empty(t, b.firstLocked)
	name, _ = b.next(now, first)
	require.Equal(t, "queue-2", name)
	name, wait := b.next(now, first)
	require.Empty(t, name)
	require.Zero(t, wait)
	require.True(t, b.isOutdated())
	b.replaceItems(nil, nil)
	b.replaceItems([]string{"queue-3"}, nil)
	name, _ = b.next(now, first)
	require.Equal(t, "queue-3", name, "it was gone, and is another one")
	b.replaceItems([]string{"queue-8", "queue-7", "queue-9"}, []string{"queue-9", "queue-8", "queue-7"})
	require.Equal(t, "queue-7", b.firstLocked)

	b = itemBacklog{order: ByPriority}
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("queue-%03d", i))
	}
	b.replaceItems(names, nil)
	for range 3 {
		require.False(t, b.isOutdated(), "1 of 100")
		b.next(now, first)
	}
	require.True(t, b.isOutdated())
	b.replaceItems(names, nil)
	require.False(t, b.isOutdated(), "of the next list")

	b = itemBacklog{order: ByDelay}
	b.replaceItems([]string{"queue-|00000065|1", "queue-|00000064|2", "queue-|7FFFFFFFFFFFFFFF|3"}, nil)
	name, _ = b.next(now, first)
	require.Equal(t, "queue-|00000064|2", name)
	name, wait = b.next(now, first)
	require.Empty(t, name)
	require.Equal(t, time.Millisecond, wait)
	name, _ = b.next(time.UnixMilli(101), first)
	require.Equal(t, "queue-|00000065|1", name)
	_, wait = b.next(now, first)
	require.Equal(t, time.Hour, wait)
}

func TestDecode(t *testing.T) {
	const head = "\x00\x01\x00\x01"
	for data, want := range map[string][]string{
		head + "\x02":                       {},
		head + "\x01\x00\x00\x00\x02ab\x02": {"ab"},
		head + "\x01\x00\x00\x00\x00\x01\x00\x00\x00\x01c\x02":      {"", "c"},
		head + "\x01\x00\x00\x00\x02ab\x02 and what comes after it": {"ab"},
	} {
		items, err := decodeItems([]byte(data))
		require.NoError(t, err)
		require.Equal(t, want, append([]string{}, texts(items)...))
	}
	for data, why := range map[string]string{
		"":                                  "0 bytes",
		"\x00\x01\x00":                      "3 bytes",
		"\x00\x01\x00\x02\x02":              "version 0x10002",
		head:                                "no end",
		head + "\x03":                       "opcode 0x3",
		head + "\x01\x00":                   "no length",
		head + "\x01\x00\x00\x00\x00":       "no end",
		head + "\x01\x00\x00\x00\x03ab\x02": "no end",
		head + "\x01\x00\x00\x00\x04ab\x02": "length 4 with 3 bytes left",
		head + "\x01\xff\xff\xff\xffab\x02": "length -1 with 3 bytes left",
		head + "\x01\x00\x00\x00\x02ab":     "no end",
	} {
		_, err := decodeItems([]byte(data))
		require.ErrorIs(t, err, ErrUnreadable, "%q", data)
		require.ErrorContains(t, err, why, "%q", data)
	}
}

func texts(items [][]byte) (all []string) {
	for _, item := range items {
		all = append(all, string(item))
	}
	return all
}

// For any bytes there is no panic, and written items read as the same.
func FuzzItems(f *testing.F) {
	f.Add([]byte("ab"), []byte{})
	f.Add([]byte("\x00\x01\x00\x01\x01\x00\x00\x00\x02ab\x02"), []byte("c"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if items, err := decodeItems(a); err == nil {
			data := encodeItems(items)
			require.True(t, bytes.HasPrefix(a, data))
		}
		items, err := decodeItems(encodeItems([][]byte{a, b}))
		require.NoError(t, err)
		require.Equal(t, []string{string(a), string(b)}, texts(items))
	})
}

// For any names, a backlog takes each of its items once, and each id makes a name that contains it.
func FuzzNames(f *testing.F) {
	f.Add("queue-|a|0000000001", "queue-1", "x/y|z", int64(5))
	f.Add("queue-||", "queue-|", "", int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, a, b, id string, millis int64) {
		for order := range ByID + 1 {
			names := []string{a, b, "queue-0000000001"}
			order.sortNames(names)
			backlog := itemBacklog{order: order}
			backlog.replaceItems(names, []string{a})
			for range names {
				if name, wait := backlog.next(time.UnixMilli(millis%(1<<50)), func(int) int { return 0 }); name != "" && name == a && a != b &&
					a != "queue-0000000001" || wait < 0 || wait > time.Hour {
					t.Fatal(name, wait)
				}
			}
		}
		if prefix, err := ByID.namePrefix([]PutOption{ID(id)}); err == nil {
			got, rest, _ := splitID(prefix + "0000000001")
			require.Equal(t, escapeID(id), got)
			require.Equal(t, "queue-0000000001", rest)
			require.NoError(t, zkpath.Validate("/"+prefix+"0000000001", false))
		}
		prefix, err := ByDelay.namePrefix([]PutOption{Due(time.UnixMilli(millis))})
		require.NoError(t, err)
		require.Equal(t, max(millis, 0), dueMillis(prefix+"0000000001"))
	})
}
