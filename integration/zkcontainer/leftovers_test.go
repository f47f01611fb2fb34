package zkcontainer_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkcontainer"
)

// The containers and networks of a process that was killed are removed immediately by the process that waited for its
// end.
func TestKilledProcessLeavesNothing(t *testing.T) {
	child, owner, watchdog := dying(t)
	if watchdog == 0 {
		assert.False(t, testcontainers.ReadConfig().RyukDisabled, "nobody would clean up")
	}
	assert.Equal(t, 3, count(t, owner))
	require.NoError(t, child.Process.Kill())
	killed := time.Now()
	_ = child.Wait()
	kit.Soon(t, "all is removed", func() bool { return count(t, owner) == 0 })
	kit.Figure(t, "what a killed process left behind was gone after %v",
		time.Since(killed).Round(10*time.Millisecond))
}

// When no process has waited for its end, the next process removes them, and nothing of processes that live.
func TestNextProcessSweeps(t *testing.T) {
	child, owner, watchdog := dying(t)
	if watchdog == 0 {
		t.Log("Ryuk is here, which would do it by itself in a while")
	} else {
		process, err := os.FindProcess(watchdog)
		require.NoError(t, err)
		require.NoError(t, process.Kill())
	}
	other, alive, _ := dying(t)
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	assert.Equal(t, 3, count(t, owner), "its maker lives")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	assert.Equal(t, 3, count(t, owner))
	removed, err := zkcontainer.Sweep(kit.Context(t))
	require.NoError(t, err)
	assert.Equal(t, 3, removed, "two containers and a network")
	assert.Zero(t, count(t, owner))
	assert.Equal(t, 3, count(t, alive))
}

// dying starts a process with a server and an ensemble of one.
func dying(t *testing.T) (child *exec.Cmd, owner string, watchdog int) {
	t.Helper()
	child = another(t, "die")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "it says: %s", line)
	words := strings.Fields(line)
	require.Len(t, words, 3, line)
	require.Equal(t, "up", words[0], line)
	watchdog, err = strconv.Atoi(words[2])
	require.NoError(t, err)
	return child, words[1], watchdog
}

// another returns a command for this program in another role.
func another(t *testing.T, as string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.v=false")
	cmd.Env = append(append(os.Environ(), role+"="+as), env...)
	return cmd
}

// count returns the number of containers and networks of an owner.
func count(t *testing.T, owner string) int {
	t.Helper()
	docker, err := testcontainers.NewDockerClientWithOpts(t.Context())
	require.NoError(t, err)
	defer docker.Close()
	filter := make(client.Filters).Add("label", zkcontainer.OwnerLabel+"="+owner)
	containers, err := docker.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: filter})
	require.NoError(t, err)
	networks, err := docker.NetworkList(t.Context(), client.NetworkListOptions{Filters: filter})
	require.NoError(t, err)
	return len(containers.Items) + len(networks.Items)
}

// A daemon that is missing, or does not reply, is an error that names the reason, in time.
func TestNoDocker(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "silent.sock"))
	require.NoError(t, err)
	defer silent.Close()
	for host, late := range map[string]bool{
		"unix://" + filepath.Join(t.TempDir(), "none.sock"): false,
		"tcp://127.0.0.1:1":                false,
		"unix://" + silent.Addr().String(): true,
	} {
		out, err := another(t, "ask", "DOCKER_HOST="+host).Output()
		require.NoError(t, err, "%s", out)
		var none, noDocker, deadline bool
		var ms int64
		words := strings.Fields(string(out))
		require.Greater(t, len(words), 4)
		none, _ = strconv.ParseBool(words[0])
		noDocker, _ = strconv.ParseBool(words[1])
		deadline, _ = strconv.ParseBool(words[2])
		ms, _ = strconv.ParseInt(words[3], 10, 64)
		assert.True(t, none, "%s", out)
		assert.True(t, noDocker, "%s", out)
		assert.Equal(t, late, deadline, "%s", out)
		assert.Less(t, ms, int64(8000), "%s", out)
		assert.Contains(t, string(out), host)
		assert.Contains(t, string(out), "ensure-docker")
	}
}
