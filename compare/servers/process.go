// Package servers starts and stops the servers of the ways: real servers from Debian's packages, on loopback, in
// separate directories. They do not outlive the program.
package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-curator/curator/compare/internal/clock"
)

// patience is the time that a server has to serve.
const patience = time.Minute

// Server is one or several servers that are one store. Members count from 0. A Server belongs to one goroutine.
type Server interface {
	// Addrs are the addresses of the members; they stay the same.
	Addrs() []string
	// Kill ends a member with SIGKILL.
	Kill(i int) error
	// Start brings a member back, with its data, and waits until it serves; for a member of a group that cannot
	// serve yet, it returns before that.
	Start(i int) error
	// Wipe deletes the data of a member that is down.
	Wipe(i int) error
	// Pause and Resume are SIGSTOP and SIGCONT.
	Pause(i int) error
	Resume(i int) error
	// Step sets the wall clock of a member ahead of the machine's, or behind it, until it is started again. It is
	// an error if the member's answers do not show that, as far as they show a clock.
	Step(i int, by time.Duration) error
	// Close leaves nothing running.
	Close() error
}

// nobody is the user of the servers when the program is root: some refuse to be root.
const nobody = 65534

// process is a server's process, which may be started again.
type process struct {
	dir     string // its data are in dir/data
	argv    []string
	ready   func(ctx context.Context) error              // asks it once
	clock   func(ctx context.Context) (time.Time, error) // asks it for the time; nil if it cannot report it
	prepare func(data string) error                      // fills an empty data directory; may be nil

	cmd    *exec.Cmd
	ended  chan struct{}
	paused bool
}

func (p *process) data() string { return filepath.Join(p.dir, "data") }

// start starts it and waits until it is ready. Remains of a killed process may be in the way for a moment, as
// PostgreSQL's backends are.
func (p *process) start() error {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err := p.launch(); err != nil {
			return err
		}
		if err := p.await(); !errors.Is(err, errEnded) || time.Since(began) > patience {
			return err
		}
	}
}

var errEnded = errors.New("the server ended by itself")

func (p *process) launch() error {
	if err := own(p.dir); err != nil {
		return err
	}
	if _, err := os.Stat(p.data()); err != nil {
		if err := own(p.data()); err != nil {
			return err
		}
		if p.prepare != nil {
			if err := p.prepare(p.data()); err != nil {
				return err
			}
		}
	}
	output, err := os.OpenFile(p.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, output, output
	cmd.Env = append(os.Environ(), "TMPDIR="+p.dir)
	cmd.SysProcAttr = attributes()
	started, ended := make(chan error), make(chan struct{})
	// The kernel kills the child when the thread that forked it ends: keep the thread.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w; compare/setup installs it", p.argv[0], err)
	}
	p.cmd, p.ended, p.paused = cmd, ended, false
	return nil
}

func (p *process) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		once, stop := context.WithTimeout(ctx, time.Second)
		err := p.ready(once)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s: %w:\n%s", p.argv[0], errEnded, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve after %v: %w\n%s", p.argv[0], patience, err, p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) log() string { return filepath.Join(p.dir, "log") }

func (p *process) tail() string {
	text, _ := os.ReadFile(p.log())
	return string(text[max(0, len(text)-2000):])
}

func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	p.cmd = nil
	return nil
}

func (p *process) wipe() error { return os.RemoveAll(p.data()) }

func (p *process) signal(s syscall.Signal) error {
	if p.cmd == nil {
		return fmt.Errorf("%s does not run", p.argv[0])
	}
	return p.cmd.Process.Signal(s)
}

func (p *process) step(by time.Duration) error {
	if p.cmd == nil {
		return fmt.Errorf("%s does not run", p.argv[0])
	}
	err := clock.Step(p.cmd.Process.Pid, by)
	if err == nil && p.clock != nil {
		err = clock.Await(context.Background(), by, p.clock)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.argv[0], err)
	}
	return nil
}

// attributes have the child die with this program, as nobody if this is root.
func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		a.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return a
}

// own makes a directory that the servers may write to.
func own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		return os.Chown(dir, nobody, nobody)
	}
	return nil
}

// run runs a command to its end, as the servers are run.
func run(dir string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = attributes()
	cmd.SysProcAttr.Pdeathsig = 0 // it ends soon, and the thread is not kept
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, output)
	}
	return nil
}

// ports finds free ports outside the system's range for connections: a server that is restarted must find its port
// free.
func ports(n int) (found []string, err error) {
	for len(found) < n {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer l.Close()
		found = append(found, port)
	}
	return found, nil
}

// single are processes that are one store, or copies of one.
type single struct {
	addrs     []string
	processes []*process
	lazy      bool // a member may have to wait for others
}

func (s *single) start() error {
	for _, p := range s.processes {
		if err := p.launch(); err != nil {
			return err
		}
	}
	for _, p := range s.processes {
		if err := p.await(); err != nil {
			return err
		}
	}
	return nil
}

func (s *single) Addrs() []string  { return s.addrs }
func (s *single) Kill(i int) error { return s.processes[i].kill() }
func (s *single) Wipe(i int) error { return s.processes[i].wipe() }

func (s *single) Start(i int) error {
	if s.lazy {
		return s.processes[i].launch()
	}
	return s.processes[i].start()
}
func (s *single) Pause(i int) error  { return s.processes[i].signal(syscall.SIGSTOP) }
func (s *single) Resume(i int) error { return s.processes[i].signal(syscall.SIGCONT) }

func (s *single) Step(i int, by time.Duration) error { return s.processes[i].step(by) }

func (s *single) Close() (err error) {
	for _, p := range s.processes {
		err = errors.Join(err, p.kill())
	}
	return err
}
