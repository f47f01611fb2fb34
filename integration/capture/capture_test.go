package capture

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/zkserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the recordings to internal/jute/testdata")

const dir = "../../internal/jute/testdata"

// TestRecordings records every operation from a real server. The files in the tree must equal the server's replies, to
// the byte; with -update they are written. Against another release line than 3.8 only the error codes of the recordings
// are checked.
func TestRecordings(t *testing.T) {
	node := zkserver.Start(t, zkserver.Options{ExtendedTypes: true})
	version := node.Version()
	compare := strings.HasPrefix(version, "3.8.")
	if !compare {
		t.Logf("ZooKeeper %s: bytes are not compared", version)
	}
	for _, rec := range recordings {
		t.Run(rec.name, func(t *testing.T) {
			r := &recorder{t: t, addr: node.Addr()}
			got := r.record(rec, version)
			file := filepath.Join(dir, rec.name+".hex")
			if *update {
				require.NoError(t, os.MkdirAll(dir, 0o755))
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			if compare {
				assert.Equal(t, withoutOrigin(string(want)), withoutOrigin(got))
			}
		})
	}
}

// withoutOrigin removes the line with the server's version.
func withoutOrigin(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, origin) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
