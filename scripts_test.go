package curator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever runs go does so for this module, also when the clone lies below somebody's go.work, which knows nothing of it.
func TestScriptsLookAtNoWorkspace(t *testing.T) {
	runs := regexp.MustCompile(`(?m)^[^#\n]*\bgo (build|test|run|vet|list)\b`)
	off := regexp.MustCompile(`(?m)^export .*\bGOWORK *:?= *off\b`)
	found := 0
	for _, pattern := range []string{"Makefile", "scripts/*", ".ci/*", "integration/run", "integration/setup", "integration/image/*"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil { // a directory
				continue
			}
			if runs.Match(text) || file == ".ci/run" {
				found++
				assert.Regexp(t, off, string(text), file)
			}
		}
	}
	assert.GreaterOrEqual(t, found, 7)
}
