//go:build !mutants

package sim

import "testing"

func setMutant(t *testing.T, name string) {
	if name != "" {
		t.Fatal("-mutant needs the overlay of internal/sim/bugs and the build tag mutants: scripts/sim mutants")
	}
}
