package zkserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

// The migration of docs/operating/servers.md: an empty ensemble whose members are given the epoch of another begins
// above it, so that fencing tokens, which are czxids, continue to grow.
func TestAnEmptyEnsembleBeginsAboveTheEpochItIsGiven(t *testing.T) {
	t.Parallel()
	e := StartEnsemble(t, 3, Options{})
	const epoch = 41
	for i := range e.Size() {
		require.NoError(t, e.Stop(i))
		require.NoError(t, e.Wipe(i))
		data := filepath.Join(e.members[i].dataDir(), "version-2")
		require.NoError(t, os.MkdirAll(data, 0o755))
		for _, name := range []string{"acceptedEpoch", "currentEpoch"} {
			require.NoError(t, os.WriteFile(filepath.Join(data, name), fmt.Append(nil, epoch), 0o644))
		}
	}
	for i := range e.Size() {
		require.NoError(t, e.Start(i))
	}
	require.NoError(t, e.AwaitServing(t.Context()))

	client, err := framework.New(e.ConnectString())
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Create().ForPath(t.Context(), "/first", nil)
	require.NoError(t, err)
	stat, err := client.CheckExists().ForPath(t.Context(), "/first")
	require.NoError(t, err)
	assert.Equal(t, int64(epoch+1), stat.Czxid>>32)
}
