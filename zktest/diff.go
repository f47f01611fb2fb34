package zktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Diff compares the tree with an expectation, data by path, and describes what differs, one line per node,
// sorted: "+ /path" for a node too many, "- /path" for a missing one, "! /path: have …, want …" for other
// data. Equal trees give "". The root, all nodes below /zookeeper, and nodes below an ignored path do not
// count; neither do parents of expected nodes that are not expected themselves.
func (s *Server) Diff(want map[string]string, ignore ...string) string {
	have := s.Tree()
	delete(have, rootPath)
	maps.DeleteFunc(have, func(path string, _ Node) bool {
		return slices.ContainsFunc(ignore, func(top string) bool {
			return path == top || strings.HasPrefix(path, top+"/")
		})
	})
	var lines []string
	for path, data := range want {
		n, found := have[path]
		switch {
		case !found:
			lines = append(lines, "- "+path)
		case string(n.Data) != data:
			lines = append(lines, fmt.Sprintf("! %s: have %q, want %q", path, n.Data, data))
		}
	}
	for path := range have {
		if _, expected := want[path]; !expected && !hasDescendant(want, path) {
			lines = append(lines, "+ "+path)
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return strings.Join(lines, "\n")
}

func hasDescendant(want map[string]string, top string) bool {
	for path := range want {
		if strings.HasPrefix(path, top+"/") {
			return true
		}
	}
	return false
}
