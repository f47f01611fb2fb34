// Package play has contenders take turns while something goes wrong, and writes down what happened.
package play

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/go-curator/curator/compare/internal/ways"
	"github.com/go-curator/curator/integration/proxy"
)

// party is a contender's process, with whatever it starts, and its links to the servers.
type party struct {
	id      string
	links   []*proxy.Proxy
	cmd     *exec.Cmd
	in      io.WriteCloser
	ended   chan struct{}
	stderr  string
	stopped bool
}

// start starts the contender id in dir. Its messages to the servers take slow, each way.
func start(
	program, dir, id string, kind ways.Kind, servers []string, store string, lease, slow time.Duration, off bool,
) (_ *party, err error) {
	c := &party{id: id, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	var addrs []string
	for _, server := range servers {
		settings := proxy.Settings{Addr: "127.0.0.1:0", Target: server}
		if slow > 0 {
			wait := func([]byte) { time.Sleep(slow) }
			settings.Tap = func(int) (toServer, toClient func([]byte)) { return wait, wait }
		}
		link, err := proxy.Listen(settings)
		if err != nil {
			return nil, err
		}
		c.links = append(c.links, link)
		addrs = append(addrs, link.Addr())
	}
	home := filepath.Join(dir, id)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	c.stderr = filepath.Join(home, "stderr")
	stderr, err := os.Create(c.stderr)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	args := []string{"contender", "-way", kind.ID, "-servers", strings.Join(addrs, ","), "-id", id,
		"-ledger", filepath.Join(dir, "ledger"), "-lease", lease.String(), "-dir", home, "-store", store}
	if off {
		args = append(args, "-off")
	}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stderr = stderr
	// A separate group, so that a Java process ends with it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel kills the child with the thread that forked it
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait()
		}
		close(c.ended)
	}()
	return c, <-started
}

func (c *party) say(format string, args ...any) error {
	_, err := fmt.Fprintf(c.in, format+"\n", args...)
	return err
}

// signal is for the whole group.
func (c *party) signal(s syscall.Signal) error {
	c.stopped = s == syscall.SIGSTOP
	return syscall.Kill(-c.cmd.Process.Pid, s)
}

func (c *party) kill() error {
	err := c.signal(syscall.SIGKILL)
	if err == nil {
		<-c.ended
	}
	return err
}

// died returns the reason why a process has ended unexpectedly.
func (c *party) died() error {
	select {
	case <-c.ended:
		text, err := os.ReadFile(c.stderr)
		return errors.Join(fmt.Errorf("contender %s ended by itself: %s", c.id, text), err)
	default:
		return nil
	}
}

// quit lets it end in order, for a while.
func (c *party) quit() {
	if c.cmd != nil && c.cmd.Process != nil {
		c.in.Close()
		select {
		case <-c.ended:
		case <-time.After(3 * time.Second):
			_ = c.signal(syscall.SIGKILL)
			<-c.ended
		}
		// A Java process may be left of the group.
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
	c.close()
}

func (c *party) close() {
	for _, link := range c.links {
		link.Close()
	}
}

func (c *party) hang(way proxy.Direction) {
	for _, link := range c.links {
		link.Hang(way)
	}
}

func (c *party) cut() {
	for _, link := range c.links {
		link.Cut()
	}
}

func (c *party) heal() {
	for _, link := range c.links {
		link.Heal()
	}
}

// member is the server that it has a connection to.
func (c *party) member() (int, error) {
	for i, link := range c.links {
		if link.Stats().Open > 0 {
			return i, nil
		}
	}
	return 0, errors.New("the holder has no connection")
}
