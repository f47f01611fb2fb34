package zkpath_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/internal/zkpath"
)

func TestSequence(t *testing.T) {
	for _, c := range []struct {
		name string
		want int64
		ok   bool
	}{
		{"lock-0000000000", 0, true},
		{"_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lock-0000000042", 42, true},
		{"0000000007", 7, true}, // a sequential node without a name of its own
		{"lock-2147483647", math.MaxInt32, true},
		{"lock-1500000000", 1500000000, true}, // ambiguous: the positive reading wins
		{"-1500000000", -1500000000, true},    // it can be nothing else, unless the name was "-"
		{"lock--1500000000", 1500000000, true},
		{"lock--000000001", -1, true},
		{"-000000001", -1, true},
		{"lock-999999999", -999999999, true}, // nine digits behind a sign: "lock" and -999999999
		{"lock--2147483648", math.MinInt32, true},
		{"-2147483648", math.MinInt32, true},
		{"-0000000001", 1, true}, // %010d never prints ten digits with a leading zero behind a sign

		{"", 0, false},
		{"lock-", 0, false},
		{"123456789", 0, false},
		{"lock-00000000x0", 0, false},
		{"lock-2147483648x", 0, false},
		{"lock_2147483648", 0, false}, // beyond the counter, and no sign
		{"lock-2147483649", 0, false},
		{"lock-9999999999", 0, false},
		{"-000000000", 0, false}, // there is no minus zero
		{"lock-00000٣0000", 0, false},
	} {
		got, ok := zkpath.Sequence(c.name)
		assert.Equal(t, c.ok, ok, c.name)
		if c.ok {
			assert.Equal(t, c.want, got, c.name)
		}
	}
}

// With the lock name known, every value of the counter is read back without doubt.
func TestSequenceOfKeyIsExact(t *testing.T) {
	for _, n := range []int32{0, 1, 999999999, 1000000000, math.MaxInt32, -1, -999999999, -1000000000,
		-1500000000, math.MinInt32 + 1, math.MinInt32} {
		name := zkpath.Protect(zkpath.NewGUID(), fmt.Sprintf("lock-%010d", n))
		got, ok := zkpath.Sequence(zkpath.SortKey(name, "lock-"))
		assert.True(t, ok, name)
		assert.Equal(t, int64(n), got, name)
	}
}

func TestSortKey(t *testing.T) {
	for _, c := range []struct{ name, lockName, want string }{
		{"_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lock-0000000001", "lock-", "0000000001"},
		{"lock-lock-3", "lock-", "3"}, // the last occurrence
		{"lock-", "lock-", ""},
		{"foreign", "lock-", "foreign"},
		{"0", "lock-", "0"},
		{"abc", "", ""}, // as in Curator
		{"", "lock-", ""},
	} {
		assert.Equal(t, c.want, zkpath.SortKey(c.name, c.lockName), c.name)
	}
}

func TestSort(t *testing.T) {
	t.Run("protection prefix plays no part, foreign children have their place", func(t *testing.T) {
		names := []string{"_c_b-lock-0000000002", "aaa", "_c_c-lock-0000000001", "lock-0000000003", "0"}
		zkpath.Sort(names, "lock-")
		assert.Equal(t, []string{"0", "_c_c-lock-0000000001", "_c_b-lock-0000000002", "lock-0000000003", "aaa"},
			names)
	})
	t.Run("equal keys keep the order of the list", func(t *testing.T) {
		// A downgraded read lock carries the digits of its write lock.
		names := []string{"z__WRIT__0000000007", "a__READ__0000000007", "m__READ__0000000003",
			"b__WRIT__0000000003"}
		zkpath.Sort(names, "__READ__", "__WRIT__")
		assert.Equal(t, []string{"m__READ__0000000003", "b__WRIT__0000000003", "z__WRIT__0000000007",
			"a__READ__0000000007"}, names)
	})
}

func FuzzSequence(f *testing.F) {
	for _, n := range []int32{0, 1, -1, -1500000000, math.MaxInt32, math.MinInt32} {
		f.Add("_c_x-", n)
		f.Add("-", n)
	}
	f.Fuzz(func(t *testing.T, prefix string, n int32) {
		_, _ = zkpath.Sequence(prefix) // arbitrary names do not panic
		name := fmt.Sprintf("%slock-%010d", prefix, n)
		if got, ok := zkpath.Sequence(zkpath.SortKey(name, "lock-")); !ok || got != int64(n) {
			t.Fatalf("%q: got %d, %v, want %d", name, got, ok, n)
		}
		if got, ok := zkpath.Sequence(name); n >= 0 && (!ok || got != int64(n)) {
			t.Fatalf("%q without its lock name: got %d, %v, want %d", name, got, ok, n)
		}
		if got, ok := zkpath.Sequence(name); ok && (got < math.MinInt32 || got > math.MaxInt32) {
			t.Fatalf("%q: %d is outside the counter's range", name, got)
		}
	})
}
