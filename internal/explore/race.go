//go:build race

package explore

const withRace = true
