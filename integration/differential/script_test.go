package differential

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
)

// Scripts are stories, and operations that once led to a difference.
func TestScriptsGiveTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	if other := os.Getenv("CURATOR_DIFFERENTIAL_SCRIPT"); other != "" {
		files = []string{other}
	}
	pair := startPair(t, tick)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			ops, err := Parse(string(script))
			require.NoError(t, err)
			difference, err := pair.Difference(ops)
			require.NoError(t, err)
			if difference != "" {
				explain(t, pair, file, ops, difference)
			}
		})
	}
	kit.Figure(t, "%d scripts give the same on zktest and %s", len(files), pair.Left.system.Name())
	require.NoError(t, pair.Close())
}
