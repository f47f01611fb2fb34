package zkserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/cluster/clustertest"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestEnsemble(t *testing.T) {
	t.Parallel()
	began := time.Now()
	e := zkserver.StartEnsemble(t, 3, zkserver.Options{})
	kit.Figure(t, "%s served after %v", e.Name(), time.Since(began).Round(time.Millisecond))
	clustertest.Run(t, e, clustertest.Timing{Tick: 500 * time.Millisecond, SyncLimit: 4})
	noWayAround(t, e)
}

func TestEnsembleSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			e := zkserver.StartEnsemble(t, size, zkserver.AsUsual())
			assert.Equal(t, size, e.Size())
			noWayAround(t, e)
			for i := range size {
				conf, err := e.FourLetter(i, "conf")
				require.NoError(t, err)
				assert.Contains(t, conf, "tickTime=2000")
				assert.Contains(t, conf, "syncLimit=5")
				assert.Equal(t, size, strings.Count(conf, "server."))
			}
		})
	}
}

// noWayAround checks that all connections between members go through a proxy: every connection that a member has opened
// is to an address on which this process listens.
func noWayAround(t *testing.T, e *zkserver.Ensemble) {
	t.Helper()
	// socket to its own address, and to the address of the other end
	listening, connected := map[string]string{}, map[string]string{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(table)) {
			const local, remote, state, inode = 1, 2, 3, 9
			// of an IPv4 address in IPv6
			tail := func(addr string) string { return addr[max(len(addr)-len("0100007F:0BB8"), 0):] }
			switch f := strings.Fields(line); f[state] {
			case "0A":
				listening[f[inode]] = tail(f[local])
			case "01":
				connected[f[inode]] = tail(f[remote])
			}
		}
	}
	theirs := map[string]bool{} // addresses on which members listen
	var dialed []string
	for i := range e.Size() {
		pid, err := e.Pid(i)
		require.NoError(t, err)
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		require.NoError(t, err)
		for _, file := range files {
			link, _ := os.Readlink(file)
			inode := strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")
			if addr, found := listening[inode]; found {
				theirs[addr] = true
			}
			if addr, found := connected[inode]; found {
				dialed = append(dialed, addr)
			}
		}
	}
	assert.GreaterOrEqual(t, len(theirs), 2*e.Size(), "client and election ports")
	assert.GreaterOrEqual(t, len(dialed), e.Size(), "members are connected")
	for _, addr := range dialed {
		assert.False(t, theirs[addr], "a member is connected to another directly, at %s", addr)
	}
}

// TestEnsembleDiesWithTheTest runs a test of this package in its own process, kills that process, and checks that the
// members end.
func TestEnsembleDiesWithTheTest(t *testing.T) {
	if file := os.Getenv("ZKSERVER_TEST_PIDS_FILE"); file != "" {
		e := zkserver.StartEnsemble(t, 3, zkserver.Options{})
		var pids []string
		for i := range e.Size() {
			pid, err := e.Pid(i)
			require.NoError(t, err)
			pids = append(pids, fmt.Sprint(pid))
		}
		require.NoError(t, e.Pause(1), "a paused one goes too")
		require.NoError(t, os.WriteFile(file+".new", []byte(strings.Join(pids, " ")), 0o644))
		require.NoError(t, os.Rename(file+".new", file))
		select {}
	}
	t.Parallel()
	file := t.TempDir() + "/pids"
	cmd := exec.Command(os.Args[0], "-test.run=^TestEnsembleDiesWithTheTest$")
	cmd.Env = append(os.Environ(), "ZKSERVER_TEST_PIDS_FILE="+file, "TMPDIR="+t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var pids []string
	kit.Soon(t, "the ensemble runs", func() bool {
		text, err := os.ReadFile(file)
		pids = strings.Fields(string(text))
		return err == nil
	})
	require.Len(t, pids, 3)
	require.NoError(t, cmd.Process.Kill())
	for _, pid := range pids {
		kit.Soon(t, "member "+pid+" is gone", func() bool {
			status, err := os.ReadFile("/proc/" + pid + "/status")
			return err != nil || strings.Contains(string(status), "Z (zombie)")
		})
	}
}

// TestNothingIsLeftOfAnEnsemble checks that nothing is left after a test that started an ensemble.
func TestNothingIsLeftOfAnEnsemble(t *testing.T) {
	t.Parallel()
	var pids []int
	var addrs []string
	t.Run("the test", func(t *testing.T) {
		e := zkserver.StartEnsemble(t, 3, zkserver.Options{})
		for i := range e.Size() {
			pid, err := e.Pid(i)
			require.NoError(t, err)
			pids = append(pids, pid)
			addrs = append(addrs, e.Addr(i))
		}
		require.NoError(t, e.Pause(0))
		require.NoError(t, e.Partition(1))
		e.CutClients(2)
	})
	for i, pid := range pids {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		assert.ErrorIs(t, err, os.ErrNotExist)
		_, err = zkserver.FourLetter(t.Context(), addrs[i], "srvr")
		assert.Error(t, err)
	}
}
