package cache

import (
	"iter"
	"slices"
)

// Failures returns the nodes that cannot be read or decoded, by path, with the errors of their [Failed] events, as they were at one moment: the call of
// the iteration. Parents come first. A node of which nothing could be read yet is among them and not in [Cache.All]; of the others All has the last that
// could be read.
func (c *Cache) Failures() iter.Seq2[string, error] { return c.e.store.allFailing() }

// Failures is as in [Cache.Failures]; the parent is among them, too, when it is what cannot be read. Paths are whole paths.
func (c *PathChildren) Failures() iter.Seq2[string, error] { return c.e.store.allFailing() }

// Failure returns why the node cannot be read or decoded, or nil.
func (c *Single) Failure() error {
	for _, err := range c.e.store.allFailing() {
		return err
	}
	return nil
}

func (s *store) allFailing() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s.mu.RLock()
		all := s.failing()
		s.mu.RUnlock()
		for _, f := range all {
			if !yield(f.path, f.err) {
				return
			}
		}
	}
}

// failure is a node that cannot be read.
type failure struct {
	path string
	err  error
}

// failing lists them, parents first. mu is held.
func (s *store) failing() []failure {
	all := make([]failure, 0, len(s.failures))
	for n, err := range s.failures {
		all = append(all, failure{s.path(n), err})
	}
	slices.SortFunc(all, func(a, b failure) int { return comparePaths(a.path, b.path) })
	return all
}
