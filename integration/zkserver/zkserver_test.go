package zkserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a connection with a session, and the timeout granted.
func connect(t *testing.T, n *Node, timeout time.Duration) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{n.ConnectString()}, timeout, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	deadline := time.After(10 * time.Second)
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return conn
			}
		case <-deadline:
			t.Fatal("no session within 10 s")
		}
	}
}

func exists(t *testing.T, n *Node, path string) bool {
	t.Helper()
	conn := connect(t, n, 4*time.Second)
	defer conn.Close()
	found, _, err := conn.Exists(path)
	require.NoError(t, err)
	return found
}

func create(t *testing.T, n *Node, path string) {
	t.Helper()
	conn := connect(t, n, 4*time.Second)
	defer conn.Close()
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestDataSurvivesRestartsUntilWiped(t *testing.T) {
	began := time.Now()
	n := Start(t, Options{})
	t.Logf("ZooKeeper %s served after %v", n.Version(), time.Since(began).Round(time.Millisecond))
	addr, pid := n.Addr(), n.Pid()
	create(t, n, "/killed")
	n.Kill()
	n.Start()
	assert.Equal(t, addr, n.Addr())
	assert.NotEqual(t, pid, n.Pid())
	assert.True(t, exists(t, n, "/killed"))

	create(t, n, "/stopped")
	n.Stop()
	_, err := n.FourLetter("srvr")
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	n.Start()
	assert.True(t, exists(t, n, "/stopped"))

	n.Restart()
	assert.True(t, exists(t, n, "/stopped"))

	n.Kill()
	n.Wipe()
	n.Start()
	assert.Equal(t, addr, n.Addr())
	assert.False(t, exists(t, n, "/stopped"))
}

func TestPausedServerAcceptsButDoesNotAnswer(t *testing.T) {
	n := Start(t, Options{})
	n.Pause()
	conn, err := net.Dial("tcp", n.Addr())
	require.NoError(t, err)
	conn.Close()
	_, err = n.FourLetter("srvr")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)

	n.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	answer, err := FourLetter(ctx, n.Addr(), "srvr")
	require.NoError(t, err)
	assert.Contains(t, answer, "Mode: standalone")

	n.Pause()
	n.Stop()
	n.Start()
	n.Pause()
	n.Kill()
}

func TestOptionsReachTheServer(t *testing.T) {
	n := Start(t, Options{
		TickTime:               200 * time.Millisecond,
		MinSessionTimeout:      300 * time.Millisecond,
		MaxSessionTimeout:      30 * time.Second,
		ExtendedTypes:          true,
		ContainerCheckInterval: 50 * time.Millisecond,
		JVMFlags:               []string{"-Dzookeeper.digest.enabled=false"},
		Config:                 []string{"globalOutstandingLimit=77"},
	})
	conf, err := n.FourLetter("conf")
	require.NoError(t, err)
	assert.Equal(t, "200", field(conf, "tickTime="))
	assert.Equal(t, "300", field(conf, "minSessionTimeout="))
	assert.Equal(t, "30000", field(conf, "maxSessionTimeout="))
	assert.Contains(t, n.log(0), "zookeeper.digest.enabled = false")

	conn := connect(t, n, 4*time.Second)
	_, err = conn.CreateTTL("/ttl", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), 100*time.Millisecond)
	require.NoError(t, err, "TTL nodes need the extended types")
	deadline := time.Now().Add(20 * time.Second)
	for found := true; found; {
		require.True(t, time.Now().Before(deadline), "the node is outdated, but nobody looks")
		found, _, err = conn.Exists("/ttl")
		require.NoError(t, err)
	}
}

func TestServersLiveSideBySide(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			n := Start(t, Options{})
			require.False(t, exists(t, n, "/mine"), "a tree of another server")
			create(t, n, "/mine")
		})
	}
}

func TestAddressInUse(t *testing.T) {
	first := Start(t, Options{})
	_, port, err := net.SplitHostPort(first.Addr())
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	second := &Node{t: t, server: server{dir: t.TempDir()}}
	second.setPort(number)
	err = second.serve(time.Now().Add(startTimeout))
	require.ErrorIs(t, err, errAddressInUse, "the answers of the first server are not those of the second")
	assert.Nil(t, second.process.Load())
}

func TestServerThatCannotStart(t *testing.T) {
	n := &Node{t: t, options: Options{Config: []string{"tickTime=nonsense"}}, server: server{dir: t.TempDir()}}
	n.setPort(15001)
	err := n.serve(time.Now().Add(startTimeout))
	require.Error(t, err)
	assert.False(t, errors.Is(err, errAddressInUse))
	assert.Contains(t, err.Error(), "nonsense", "the error shows the server's own words")
}

// TestServerDiesWithTheTest runs a test of this package in its own process, kills that process, and checks that its
// server ends.
func TestServerDiesWithTheTest(t *testing.T) {
	if file := os.Getenv("ZKSERVER_TEST_PID_FILE"); file != "" {
		n := Start(t, Options{})
		require.NoError(t, os.WriteFile(file+".new", []byte(strconv.Itoa(n.Pid())), 0o644))
		require.NoError(t, os.Rename(file+".new", file))
		select {}
	}
	file := t.TempDir() + "/pid"
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithTheTest$")
	cmd.Env = append(os.Environ(), "ZKSERVER_TEST_PID_FILE="+file, "TMPDIR="+t.TempDir())
	require.NoError(t, cmd.Start())
	killed := false
	defer func() {
		if !killed {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}()
	var pid string
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		pid = string(text)
		return err == nil
	}, startTimeout, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	killed = true
	assert.Eventually(t, func() bool {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		return err != nil || strings.Contains(string(status), "Z (zombie)")
	}, 10*time.Second, 10*time.Millisecond, "server %s outlived its test", pid)
}
