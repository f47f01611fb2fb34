//go:build !race

package snippets

const slow = false
