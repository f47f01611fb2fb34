package recipes

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/zkserver"
)

// The quickstart is a program that checks itself; its tests run it on zktest.
func TestQuickstartOnAServer(t *testing.T) {
	t.Parallel()
	const workers, rounds = 4, 5
	program := filepath.Join(t.TempDir(), "quickstart")
	build := exec.Command("go", "build", "-o", program, "./examples/quickstart")
	build.Dir = "../.."
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)

	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	cmd := exec.Command(program, "-servers", node.Addr(), "-workers", strconv.Itoa(workers), "-rounds", strconv.Itoa(rounds))
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	process, err := child.Start(cmd)
	require.NoError(t, err)
	require.NoError(t, process.Err(), complaints.String())
	assert.Regexp(t, `worker \d stops, \S+ later: session lost`, out.String())
	assert.Contains(t, out.String(),
		fmt.Sprintf("quickstart: %d grants to %d workers, never two at once", workers*rounds, workers))
}
