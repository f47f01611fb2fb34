//go:build mutants

package mutant

import "sync/atomic"

var active atomic.Value

// On says whether the bug of this name is wanted.
func On(name string) bool {
	is, _ := active.Load().(string)
	return is == name
}

// Set chooses the bug; "" is none.
func Set(name string) { active.Store(name) }
