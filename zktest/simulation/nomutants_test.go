//go:build !mutants

package simulation_test

import "testing"

func setMutant(t *testing.T, name string) {
	if name != "" {
		t.Fatal("-mutant needs the overlay of zktest/simulation/bugs and the build tag mutants: scripts/sim mutants")
	}
}
