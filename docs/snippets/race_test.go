//go:build race

package snippets

// slow says that the race detector is at work: a schedule takes ten times as long.
const slow = true
