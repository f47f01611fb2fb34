//go:build mutants

package explore

const withBugs = true
