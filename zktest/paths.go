package zktest

import (
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

const (
	rootPath   = "/"
	procPath   = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	configPath = "/zookeeper/config"
)

func specialPath(path string) bool {
	return path == rootPath || path == procPath || path == quotaPath || path == configPath
}

// splitPath cuts at the last slash: "/a/b" is "/a" and "b", "/a" is "" and "a". A path without a slash has no
// directory.
func splitPath(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// parentOf returns the path that gets the child events of path.
func parentOf(path string) string {
	if dir, _ := splitPath(path); dir != "" {
		return dir
	}
	return rootPath
}

// validPath applies ZooKeeper's rules for a whole path.
func validPath(path string) bool {
	switch {
	case path == rootPath:
		return true
	case path == "" || path[0] != '/' || path[len(path)-1] == '/':
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	for _, r := range path {
		switch {
		case r <= 0x1f, r >= 0x7f && r <= 0x9f: // control
			return false
		case r >= 0xd800 && r <= 0xf8ff: // surrogates, private use
			return false
		case r >= 0xfff0: // specials, and what Java sees as surrogates
			return false
		}
	}
	return true
}

// parentForWrite returns the directory of a node to create, or an error if the path has none.
func parentForWrite(path string) (string, Error) {
	if path == jute.Null {
		return "", ErrMarshalling
	}
	if !strings.Contains(path, "/") || strings.IndexByte(path, 0) >= 0 {
		return "", ErrBadArguments
	}
	dir, _ := splitPath(path)
	return dir, ok
}
