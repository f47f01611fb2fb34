package kit

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFeaturesByRelease(t *testing.T) {
	refusal := Feature{"exists refused without READ", zooKeeper, []string{"3.9.2", "3.8.4"}}
	for release, want := range map[string][2]bool{
		"3.5.10": {false, false}, "3.6.0": {true, false}, "3.8.0": {true, false}, "3.8.4": {true, true},
		"3.8.10": {true, true}, "3.9.1": {true, false}, "3.9.5": {true, true}, "4.0.0": {true, true},
	} {
		assert.Equal(t, want, [2]bool{has(PersistentWatches, release), has(refusal, release)}, release)
	}
}
