package clients

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

// The same client loads zktest and a Java server in turns, each in its own process and neither with the race detector.
// The Java server does not wait for the disk (forceSync=no), and has all its compilers and time to warm up.
func TestThroughputBesideJava(t *testing.T) {
	const rounds = 7
	program := filepath.Join(t.TempDir(), "throughput")
	built, err := exec.Command("go", "build", "-o", program, "./throughput").CombinedOutput()
	require.NoError(t, err, "%s", built)
	measure := func(addr string, seconds int) float64 {
		out, err := exec.CommandContext(kit.Context(t), program, "-addr", addr, "-for", strconv.Itoa(seconds)+"s").
			CombinedOutput()
		require.NoError(t, err, "%s", out)
		rate, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		require.NoError(t, err)
		return rate
	}
	java := zkserver.Start(t, zkserver.Options{JVMFlags: []string{"-XX:TieredStopAtLevel=4", "-Xmx1g",
		"-Dzookeeper.preAllocSize=65536"}, MaxSessionTimeout: kit.Patience}).Addr()
	ours := serveZktest(t, program)
	measure(java, 4)
	measure(ours, 1)
	var javas, zktests, ratios []float64
	for range rounds {
		j, z := measure(java, 1), measure(ours, 1)
		javas, zktests, ratios = append(javas, j), append(zktests, z), append(ratios, z/j)
	}
	kit.Figure(t, "throughput, median of %d rounds in turns: zktest %.0f operations/s, Java without fsync "+
		"%.0f, ratio %.2f (%.2f to %.2f)", rounds,
		median(zktests), median(javas), median(ratios), slices.Min(ratios), slices.Max(ratios))
	assert.Greater(t, median(ratios), 2.0, "zktest is to be at least twice as fast: %v", fmt.Sprint(ratios))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// serveZktest runs a zktest in another process and returns its address.
func serveZktest(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.Command(program, "-serve")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	process, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		in.Close()
		process.Kill()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}
