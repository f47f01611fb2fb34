// Package zkpath has the rules of znode paths and names. It validates, joins and splits paths, parses and
// sorts the numbers of sequential nodes, and makes and parses protected names.
//
// Everything here is a pure function and safe for concurrent use. Nothing panics, whatever the input: names
// come from the tree, where any client may have written them. Corresponds to Curator's ZKPaths, PathUtils and
// ProtectedUtils.
package zkpath

import (
	"fmt"
	"strings"
)

// Error is returned for a Path that cannot be the path of a znode. Find it with errors.As.
type Error struct {
	Path   string // as the caller passed it
	Reason string // the mistake, and a right form
}

func (e *Error) Error() string { return fmt.Sprintf("invalid path %q: %s", e.Path, e.Reason) }

// Validate returns nil or an *Error. A legal path starts with "/", has no empty name, no name "." or "..", no
// trailing "/" (except the root itself) and none of the characters that ZooKeeper refuses.
//
// If sequential is true, the server will append digits to path, so the last name can also be empty, "." or
// "..": "/a/" is legal then.
//
// The character ranges are those of ZooKeeper 3.8, client and server. Curator's own check accepts their
// boundaries (U+001F, U+007F, U+009F, U+F8FF, U+FFF0, U+FFFF), but ZooKeeper then refuses them.
func Validate(path string, sequential bool) error {
	fault := func(format string, args ...any) error {
		return &Error{Path: path, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case path == "":
		return fault(`it is empty; the root is "/"`)
	case path[0] != '/':
		return fault(`it must start with "/"`)
	case path == "/":
		return nil
	case path[len(path)-1] == '/' && !sequential:
		return fault(`it must not end with "/" (only the path of a sequential node can)`)
	}
	at, rest := 1, path[1:]
	for {
		name, tail, more := strings.Cut(rest, "/")
		if complete := more || !sequential; complete {
			switch name {
			case "":
				return fault(`there is an empty name at byte %d; write one "/" instead of two`, at)
			case ".", "..":
				return fault(`the name %q at byte %d is reserved; write the path without it`, name, at)
			}
		}
		for i, r := range name {
			// Control characters, surrogates, the private use area, and the specials. Java represents a
			// character above U+FFFF by two surrogates. A byte that is not UTF-8 is U+FFFD here, which is one
			// of the specials.
			if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
				return fault("ZooKeeper does not allow the character %U (at byte %d)", r, at+i)
			}
		}
		if !more {
			return nil
		}
		at, rest = at+len(name)+1, tail
	}
}

// Join puts names below parent, with exactly one "/" in between and in front: Join("/a", "b", "c") and
// Join("a/", "/b", "c") are "/a/b/c". Empty names and "/" add nothing, so Join("/a", "/") is "/a" and
// Join("", "") is "/". It does not validate.
//
// Unlike Curator's makePath, Join keeps a trailing "/" of the last name. Such a path requests a sequential
// node whose name is only the number, and must keep its meaning when a namespace is put before it.
func Join(parent string, names ...string) string {
	path := parent
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	for _, name := range names {
		path = strings.TrimSuffix(path, "/")
		if name == "" || name == "/" {
			continue
		}
		path += "/" + strings.TrimPrefix(name, "/")
	}
	if path == "" {
		return "/"
	}
	return path
}

// Parent returns the path of the parent: Parent("/a/b") is "/a", Parent("/a") and Parent("/") are "/".
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// Base returns the last name of the path: Base("/a/b") is "b", Base("/") is "".
func Base(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// Split returns the names along the path, from the top: Split("/a/b") is ["a", "b"], Split("/") is empty.
func Split(path string) []string {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
