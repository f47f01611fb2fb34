// Package zkserver runs real ZooKeeper servers as child processes of a test.
//
// A server found dead or a failed start ends the test with the server's log:
// nothing is skipped. Everything a server leaves behind is gone when the test
// ends, and on Linux also when the test process is killed.
package zkserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/internal/jvm"
)

// startTimeout is generous: a start takes well under a second, but the machine
// may be busy.
const startTimeout = 60 * time.Second

var errAddressInUse = errors.New("address already in use")

// Node is one ZooKeeper server with a fixed address and a data directory that
// survives restarts. Methods that take no error out of the test fail it, so
// they belong to the goroutine of the test; only ConnectString, Addr and
// FourLetter may be used from others.
type Node struct {
	t       testing.TB
	options Options
	dir     string
	port    int
	process *child.Process // nil while the server is down
	paused  bool
	logFrom int64 // where the log of the running process begins
}

// Start starts a standalone server and waits until it serves. It ends with the
// test.
func Start(t testing.TB, options Options) *Node {
	t.Helper()
	n := &Node{t: t, options: options, dir: t.TempDir()}
	t.Cleanup(n.cleanUp)
	deadline := time.Now().Add(startTimeout)
	for {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		n.port = port
		err = n.serve(deadline)
		if err == nil {
			return n
		}
		if !errors.Is(err, errAddressInUse) {
			t.Fatal(err)
		}
	}
}

// ConnectString is what a client needs to connect.
func (n *Node) ConnectString() string { return n.Addr() }

// Addr is the server's host:port; it stays the same over restarts.
func (n *Node) Addr() string { return addrOf(n.port) }

// Pid is the process id of the running server.
func (n *Node) Pid() int {
	n.t.Helper()
	return n.running().Pid()
}

// Version is the version the server gives, as in 3.8.0.
func (n *Node) Version() string {
	n.t.Helper()
	answer, err := n.FourLetter("srvr")
	if err != nil {
		n.t.Fatal(err)
	}
	version, _, _ := strings.Cut(field(answer, "Zookeeper version: "), "-")
	return version
}

// FourLetter sends a four-letter command and returns the answer. It gives up
// after 300 ms: a paused server, or one just starting, may never answer.
func (n *Node) FourLetter(command string) (string, error) {
	ctx, cancel := pollContext()
	defer cancel()
	return FourLetter(ctx, n.Addr(), command)
}

// Kill ends the server with SIGKILL, paused or not. It returns when the process
// is gone.
func (n *Node) Kill() {
	n.t.Helper()
	n.running().Kill()
	n.process, n.paused = nil, false
}

// Stop ends the server with SIGTERM, as an orderly shutdown does. It returns
// when the process is gone.
func (n *Node) Stop() {
	n.t.Helper()
	process := n.running()
	if n.paused {
		n.Resume()
	}
	n.signal(syscall.SIGTERM)
	select {
	case <-process.Done():
	case <-time.After(startTimeout):
		n.t.Fatalf("server %s still runs %v after SIGTERM", n.Addr(), startTimeout)
	}
	n.process = nil
}

// Start brings a server that is down back, with its address and its data, and
// waits until it serves.
func (n *Node) Start() {
	n.t.Helper()
	if n.process != nil {
		n.t.Fatalf("server %s runs already", n.Addr())
	}
	deadline := time.Now().Add(startTimeout)
	for {
		err := n.serve(deadline)
		if err == nil {
			return
		}
		// The address must stay, so wait for whoever borrowed it.
		if !errors.Is(err, errAddressInUse) || time.Now().After(deadline) {
			n.t.Fatal(err)
		}
	}
}

// Restart kills the server if it runs and starts it again.
func (n *Node) Restart() {
	n.t.Helper()
	if n.process != nil {
		n.Kill()
	}
	n.Start()
}

// Pause stops the process with SIGSTOP: connections stay open, the system goes
// on accepting new ones, and nothing is answered. On Linux no thread of the
// server runs any more when Pause returns.
func (n *Node) Pause() {
	n.t.Helper()
	n.signal(syscall.SIGSTOP)
	n.paused = true
	deadline := time.Now().Add(startTimeout)
	for !allThreadsStopped(n.process.Pid()) {
		if time.Now().After(deadline) {
			n.t.Fatalf("server %s still runs %v after SIGSTOP", n.Addr(), startTimeout)
		}
		time.Sleep(time.Millisecond)
	}
}

// Resume lets a paused server go on.
func (n *Node) Resume() {
	n.t.Helper()
	n.signal(syscall.SIGCONT)
	n.paused = false
}

// Wipe deletes the data of a server that is down: the next start is with an
// empty tree and knows no session.
func (n *Node) Wipe() {
	n.t.Helper()
	if n.process != nil {
		n.t.Fatalf("server %s must be down to be wiped", n.Addr())
	}
	if err := os.RemoveAll(n.dataDir()); err != nil {
		n.t.Fatal(err)
	}
}

func (n *Node) dataDir() string { return filepath.Join(n.dir, "data") }
func (n *Node) logFile() string { return filepath.Join(n.dir, "log") }

func (n *Node) running() *child.Process {
	n.t.Helper()
	if n.process == nil {
		n.t.Fatalf("server %s is down", n.Addr())
	}
	select {
	case <-n.process.Done():
		n.t.Fatalf("server %s has ended by itself: %v", n.Addr(), n.process.Err())
	default:
	}
	return n.process
}

func (n *Node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.running().Signal(s); err != nil {
		n.t.Fatalf("server %s: %v: %v", n.Addr(), s, err)
	}
}

// serve launches the process and waits until it serves. After an error no
// process is left.
func (n *Node) serve(deadline time.Time) error {
	if err := n.launch(); err != nil {
		return err
	}
	err := n.awaitServing(deadline)
	if err != nil {
		n.process.Kill()
		n.process = nil
	}
	return err
}

func (n *Node) launch() error {
	java, err := jvm.Java()
	if err != nil {
		return err
	}
	classpath, err := jvm.ServerClasspath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.dataDir(), 0o755); err != nil {
		return err
	}
	config := filepath.Join(n.dir, "zoo.cfg")
	if err := os.WriteFile(config, []byte(n.options.config(n.dataDir(), n.port)), 0o644); err != nil {
		return err
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	if n.logFrom, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	args := append(jvm.FastStart(), n.options.properties()...)
	args = append(args, "-cp", classpath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	cmd := exec.Command(java, args...)
	cmd.Stdout, cmd.Stderr = log, log
	n.process, err = child.Start(cmd)
	n.paused = false
	return err
}

// awaitServing polls. Neither an open port nor a line in the log means that
// requests are answered; a mode in the answer to srvr does. That it is this
// server which answers, and not one that was faster to take the port, is known
// by its data directory.
func (n *Node) awaitServing(deadline time.Time) error {
	for {
		if field(poll(n.Addr(), "srvr"), "Mode: ") != "" && strings.HasPrefix(field(poll(n.Addr(), "conf"), "dataDir="), n.dataDir()) {
			return nil
		}
		select {
		case <-n.process.Done():
			log := n.log(n.logFrom)
			if strings.Contains(log, "Address already in use") {
				return fmt.Errorf("server %s: %w", n.Addr(), errAddressInUse)
			}
			return fmt.Errorf("server %s ended while starting: %v\n%s", n.Addr(), n.process.Err(), log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("server %s does not serve after %v\n%s", n.Addr(), startTimeout, n.log(n.logFrom))
		}
	}
}

// log is the server's log from an offset on, at most its last 16 KiB.
func (n *Node) log(from int64) string {
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	from = max(min(from, int64(len(text))), int64(len(text))-16<<10)
	return string(text[from:])
}

func (n *Node) cleanUp() {
	if n.t.Failed() {
		n.t.Logf("log of server %s:\n%s", n.Addr(), n.log(0))
	}
	if n.process != nil {
		n.process.Kill()
		n.process = nil
	}
}
