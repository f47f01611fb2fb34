package kit

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFeaturesByRelease(t *testing.T) {
	for release, want := range map[string][]bool{
		"3.5.10": {false, false, false}, "3.6.0": {true, false, false}, "3.7.2": {true, true, false}, "3.8.0": {true, true, false},
		"3.8.4": {true, true, true}, "3.8.10": {true, true, true}, "3.9.1": {true, true, false}, "3.9.5": {true, true, true},
		"4.0.0": {true, true, true},
	} {
		for i, f := range []Feature{PersistentWatches, WhoAmI, ExistsNeedsRead} {
			assert.Equal(t, want[i], has(f, release), "%s of %s", f.what, release)
		}
	}
}
