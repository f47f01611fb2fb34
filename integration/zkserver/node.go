// Package zkserver runs real ZooKeeper servers as child processes of a test:
// one ([Start]) or an ensemble ([StartEnsemble]).
//
// A server found dead or a failed start ends the test with the server's log:
// nothing is skipped. Everything a server leaves behind is gone when the test
// ends, and on Linux also when the test process is killed.
package zkserver

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Node is one ZooKeeper server with a fixed address and a data directory that
// survives restarts. Methods that take no error out of the test fail it, so
// they belong to the goroutine of the test; only ConnectString, Addr and
// FourLetter may be used from others.
type Node struct {
	t       testing.TB
	options Options
	server
}

// Start starts a standalone server and waits until it serves. It ends with the
// test.
func Start(t testing.TB, options Options) *Node {
	t.Helper()
	n := &Node{t: t, options: options, server: server{dir: t.TempDir()}}
	t.Cleanup(n.cleanUp)
	deadline := time.Now().Add(startTimeout)
	for {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		n.setPort(port)
		err = n.serve(deadline)
		if err == nil {
			t.Log("ran on: 1 process") // for the report of ../run
			return n
		}
		if !errors.Is(err, errAddressInUse) {
			t.Fatal(err)
		}
	}
}

func (n *Node) setPort(port int) {
	n.addr = addrOf(port)
	n.name = "server " + n.addr
	n.config = n.options.config() + n.options.standalone(port)
	n.flags = n.options.properties()
	n.release = n.options.Version
}

// ConnectString is the connect string for clients.
func (n *Node) ConnectString() string { return n.Addr() }

// Addr is the server's host:port; it stays the same over restarts.
func (n *Node) Addr() string { return n.addr }

// Pid is the process id of the running server.
func (n *Node) Pid() int {
	n.t.Helper()
	process, err := n.running()
	n.must(err)
	return process.Pid()
}

// Version is the version the server gives, as in 3.8.0.
func (n *Node) Version() string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	version, err := n.version(ctx)
	n.must(err)
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
	n.must(n.kill())
}

// Stop ends the server with SIGTERM, as an orderly shutdown does. It returns
// when the process is gone.
func (n *Node) Stop() {
	n.t.Helper()
	n.must(n.stop())
}

// Start brings a server that is down back, with its address and its data, and
// waits until it serves.
func (n *Node) Start() {
	n.t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := n.serve(deadline)
		if err == nil {
			return
		}
		// The address must stay, so wait until it is free again.
		if !errors.Is(err, errAddressInUse) || time.Now().After(deadline) {
			n.t.Fatal(err)
		}
	}
}

// Restart kills the server if it runs and starts it again.
func (n *Node) Restart() {
	n.t.Helper()
	if n.process.Load() != nil {
		n.Kill()
	}
	n.Start()
}

// Pause stops the process with SIGSTOP: connections stay open, the system still accepts new ones, and there are no
// replies. On Linux no thread of the server runs any more when Pause returns.
func (n *Node) Pause() {
	n.t.Helper()
	n.must(n.pause())
}

// Resume continues a paused server.
func (n *Node) Resume() {
	n.t.Helper()
	n.must(n.resume())
}

// Wipe deletes the data of a server that is down: the next start is with an
// empty tree and knows no session.
func (n *Node) Wipe() {
	n.t.Helper()
	n.must(n.wipe())
}

func (n *Node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *Node) cleanUp() {
	if n.t.Failed() {
		n.t.Logf("log of %s:\n%s", n.name, n.log(0))
	}
	n.end()
}
