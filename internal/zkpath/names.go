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

// A protected name is "_c_", a UUID of 36 characters, "-" and the requested name. A client that creates a
// node and loses the reply finds the node by the UUID.
const (
	protectedPrefix = "_c_"
	guidLen         = 36
	protectedLen    = len(protectedPrefix) + guidLen + 1 // the length before the name
)

// Protect returns the protected form of a node's name: "_c_" + guid + "-" + name. Get guid from NewGUID.
func Protect(guid, name string) string { return protectedPrefix + guid + "-" + name }

// ProtectLast is path with the protected form of its last name.
func ProtectLast(path, guid string) string {
	end := strings.LastIndexByte(path, '/') + 1
	return path[:end] + protectedPrefix + guid + "-" + path[end:]
}

// ParseProtected splits a protected name into its UUID and the requested name. ok is false for every other
// name, also if nothing follows the UUID, exactly as in Curator. Both lower and upper case are accepted in
// the UUID, as in Curator, and returned unchanged.
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

// The character at versionAt is the version of a UUID. Java's random UUIDs have version 4. Those of this
// library have version 8, which is for vendors' own formats. So this library recognises its own nodes, and
// Curator accepts them like any others.
const (
	versionAt  = 14
	ourVersion = '8'
)

// IsOurGUID reports whether s is a UUID made by NewGUID of this library, and not by Curator for Java.
func IsOurGUID(s string) bool { return isGUID(s) && s[versionAt] == ourVersion }

// IsOurs reports whether name is a protected name made by this library.
func IsOurs(name string) bool {
	guid, _, ok := ParseProtected(name)
	return ok && IsOurGUID(guid)
}

// NewGUID returns a new random UUID in lower case. IsOurGUID returns true for it.
func NewGUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: without randomness the Go runtime ends the program
	b[6] = b[6]&0x0f | (ourVersion-'0')<<4
	b[8] = b[8]&0x3f | 0x80
	var guid [guidLen]byte
	at := 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			guid[at] = '-'
			at++
		}
		hex.Encode(guid[at:], b[:n])
		at += 2 * n
		copy(b[:], b[n:])
	}
	return string(guid[:])
}

// suffixLen is the usual length of the number that the server appends to the name of a sequential node: a
// signed 32-bit counter in the format %010d.
const suffixLen = 10

// Sequence parses the number that the server appended to the name of a sequential node. ok is false if name
// does not end in such a number.
//
// The counter is signed and overflows to negative numbers. Those from -1 to -999999999 are a sign and nine
// digits, ten characters. Those down to -2147483648 are a sign and ten digits, eleven characters, and then
// the name is ambiguous: "lock-1500000000" is "lock-" and 1500000000, or "lock" and -1500000000. Requested
// names nearly always end in "-", so Sequence returns the positive number if that is possible. If the
// requested name is known, Sequence(SortKey(name, "lock-")) is unambiguous, since the key is only the number.
func Sequence(name string) (n int64, ok bool) {
	if len(name) < suffixLen {
		return 0, false
	}
	before, last := name[:len(name)-suffixLen], name[len(name)-suffixLen:]
	digits, minus := strings.CutPrefix(last, "-")
	u, err := strconv.ParseUint(digits, 10, 63) // accepts no sign
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

// SortKey returns Curator's sort key for the children of a lock: the part of name after the last
// occurrence of lockName ("lock-", "latch-", "__READ__"), or all of name if lockName does not occur. So the
// protection prefix does not matter, and a child that belongs to no lock has the same place in the queue for
// every client.
//
// Keys are compared as strings. After a counter overflow, past 2147483647, that is not the order of arrival,
// in no client.
func SortKey(name, lockName string) string {
	if i := strings.LastIndex(name, lockName); i >= 0 {
		return name[i+len(lockName):]
	}
	return name
}

// Sort sorts children in Curator's order: by SortKey, and stable for equal keys. With several lock names
// SortKey is applied for each in turn, as the read-write lock does: Sort(children, "__READ__", "__WRIT__").
func Sort(names []string, lockNames ...string) {
	key := func(name string) string {
		for _, lockName := range lockNames {
			name = SortKey(name, lockName)
		}
		return name
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
}
