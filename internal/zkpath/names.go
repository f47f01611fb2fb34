package zkpath

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A protected name is "_c_", a UUID of 36 characters, "-" and the name that was asked for. A client that
// creates a node and loses the reply finds it by the UUID.
const (
	protectedPrefix = "_c_"
	guidLen         = 36
	protectedLen    = len(protectedPrefix) + guidLen + 1 // up to the name
)

// Protect returns the protected form of a node's name: "_c_" + guid + "-" + name. The guid is one of NewGUID.
func Protect(guid, name string) string { return protectedPrefix + guid + "-" + name }

// ParseProtected takes a protected name apart. ok is false for every other name, including one with nothing
// after the prefix, exactly as in Curator. The UUID is returned as written; Curator writes lower case and
// reads both.
func ParseProtected(name string) (guid, rest string, ok bool) {
	if len(name) <= protectedLen || name[:len(protectedPrefix)] != protectedPrefix ||
		name[protectedLen-1] != '-' {
		return "", "", false
	}
	guid, rest = name[len(protectedPrefix):protectedLen-1], name[protectedLen:]
	if !isGUID(guid) {
		return "", "", false
	}
	return guid, rest, true
}

// isGUID reports whether the 36 characters are 8-4-4-4-12 hexadecimal digits.
func isGUID(s string) bool {
	if len(s) != guidLen {
		return false
	}
	for i := range guidLen {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return false
			}
		}
	}
	return true
}

// A UUID says its version at this place. Java's random ones have 4. Ours have 8, the version for those with a
// meaning of their own: so we know our own nodes, while for Curator they are as good as any.
const (
	versionAt  = 14
	ourVersion = '8'
)

// IsOurGUID says whether NewGUID of this library has made a UUID, and not Curator for Java.
func IsOurGUID(s string) bool { return isGUID(s) && s[versionAt] == ourVersion }

// IsOurs says whether this library has made a protected name.
func IsOurs(name string) bool {
	guid, _, ok := ParseProtected(name)
	return ok && IsOurGUID(guid)
}

// NewGUID returns a new random UUID in lower case, one for which IsOurGUID is true.
func NewGUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the program is ended if the system has no randomness
	b[6] = b[6]&0x0f | (ourVersion-'0')<<4
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

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
	digits, minus := strings.CutPrefix(last, "-")
	u, err := strconv.ParseUint(digits, 10, 63) // takes no sign
	n = int64(u)
	switch {
	case err != nil:
		return 0, false
	case minus:
		return -n, n != 0
	case before == "-" && n >= 1_000_000_000 && n <= -math.MinInt32:
		return -n, true
	case n <= math.MaxInt32:
		return n, true
	case strings.HasSuffix(before, "-") && n == -math.MinInt32:
		return -n, true
	}
	return 0, false
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
