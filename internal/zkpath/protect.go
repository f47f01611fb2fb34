package zkpath

import (
	"crypto/rand"
	"encoding/hex"
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
