package zkpath

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// suffixLen is the usual length of what the server appends to the name of a sequential node: a signed 32-bit
// counter in the format %010d.
const suffixLen = 10

// Sequence reads the number that the server appended to the name of a sequential node, from its last ten
// characters. It is false for a name that does not end in such a number.
//
// The counter is signed and overflows. -1 to -999999999 are a sign and nine digits; the rest, down to
// -2147483648, are a sign and ten digits, eleven characters in all. There the name alone is ambiguous:
// "lock-1500000000" may be "lock-" and 1500000000 or "lock" and -1500000000. Names end in "-" nearly always,
// so the answer is the positive number whenever one is possible. If the name is known, Sequence(SortKey(name,
// "lock-")) is unambiguous: a key holds nothing but the number.
func Sequence(name string) (n int64, ok bool) {
	if len(name) < suffixLen {
		return 0, false
	}
	before, last := name[:len(name)-suffixLen], name[len(name)-suffixLen:]
	if last[0] == '-' {
		n, ok = digits(last[1:])
		return -n, ok && n != 0
	}
	n, ok = digits(last)
	switch {
	case !ok:
		return 0, false
	case before == "-" && n >= 1_000_000_000 && n <= -math.MinInt32:
		return -n, true
	case n <= math.MaxInt32:
		return n, true
	case strings.HasSuffix(before, "-") && n == -math.MinInt32:
		return -n, true
	}
	return 0, false
}

// digits reads a short run of decimal digits.
func digits(s string) (n int64, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// SortKey is what Curator sorts the children of a lock by: the part of the name after the last occurrence of
// lockName ("lock-", "latch-", "__READ__"), and the whole name when it has none. So the protection prefix
// plays no part, and a foreign child has a definite place in the line, the same one for every client.
//
// The key is compared as a string. Beyond 2147483647 that order is not the order of arrival; nobody's is.
func SortKey(name, lockName string) string {
	if i := strings.LastIndex(name, lockName); i >= 0 {
		return name[i+len(lockName):]
	}
	return name
}

// Sort puts children into Curator's order: by SortKey, names with equal keys staying as they came. With
// several lock names the key is taken by each in turn, as the read-write lock does: Sort(children,
// "__READ__", "__WRIT__").
func Sort(names []string, lockNames ...string) {
	key := func(name string) string {
		for _, lockName := range lockNames {
			name = SortKey(name, lockName)
		}
		return name
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
}
