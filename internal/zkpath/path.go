// Package zkpath knows the rules of znode paths and names: what a legal path is, how paths are joined and
// taken apart, how the numbers of sequential nodes are read and sorted, and how protected names are built.
//
// Everything here is a pure function and safe for concurrent use. Nothing panics, whatever the input: names
// come from the tree, and anybody may have written them. Corresponds to Curator's ZKPaths, PathUtils and
// ProtectedUtils.
package zkpath

import (
	"fmt"
	"strings"
)

// Error says that Path cannot be the path of a znode, and why. Find it with errors.As.
type Error struct {
	Path   string // as it was given
	Reason string // what is wrong and what would be right
}

func (e *Error) Error() string { return fmt.Sprintf("invalid path %q: %s", e.Path, e.Reason) }

// Validate returns nil or an *Error. A legal path starts with "/", has no empty name, no name "." or "..", no
// trailing "/" (except the root itself) and none of the characters that ZooKeeper refuses.
//
// With sequential the server is going to append digits, so the last name may also be empty, "." or "..":
// "/a/" is legal.
//
// The character ranges are those of ZooKeeper 3.8, client and server. Curator's own check lets their
// boundaries pass (U+001F, U+007F, U+009F, U+F8FF, U+FFF0, U+FFFF), but the ZooKeeper below it never did.
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
			// Controls, surrogates with the private use area, and the specials. Java sees a character beyond U+FFFF
			// as two surrogates. Bytes that are not UTF-8 arrive here as U+FFFD, which is among the specials.
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
// Unlike Curator's makePath it keeps a trailing "/" of the last name: that is how a sequential node without a
// name of its own is asked for, and it must survive being put below a namespace.
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

// Parent returns the path of the node above: Parent("/a/b") is "/a", Parent("/a") and Parent("/") are "/".
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
