//go:build !mutants

package sim

import "testing"

func setMutant(t *testing.T, name string) {
	if name != "" {
		t.Fatal("-mutant needs -tags mutants")
	}
}
