package zkserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/internal/jvm"
)

// startTimeout is generous: a start takes well under a second, but the machine
// may be busy.
const startTimeout = 60 * time.Second

var errAddressInUse = errors.New("address already in use")

// server is one server as a child process: alone, or a member of an ensemble.
// It has an address and a directory that survive its restarts.
//
// Only awake, addr, srvr and ended may be used by several goroutines.
type server struct {
	name    string
	addr    string
	dir     string
	config  string   // of zoo.cfg, but for the directory
	flags   []string // of the JVM
	myid    int      // 0: alone
	release string   // of Options.Version
	process atomic.Pointer[child.Process]
	paused  atomic.Bool
	logFrom int64 // where the log of the running process begins
}

func (s *server) dataDir() string { return filepath.Join(s.dir, "data") }
func (s *server) logFile() string { return filepath.Join(s.dir, "log") }

// running returns the process, unless the server is down.
func (s *server) running() (*child.Process, error) {
	process := s.process.Load()
	if process == nil {
		return nil, fmt.Errorf("%s is down", s.name)
	}
	return process, s.ended(process)
}

// ended returns an error if a process that should run has ended.
func (s *server) ended(process *child.Process) error {
	select {
	case <-process.Done():
		return fmt.Errorf("%s has ended by itself: %v\n%s", s.name, process.Err(), s.log(0))
	default:
		return nil
	}
}

// awake reports whether a reply can be expected.
func (s *server) awake() bool { return s.process.Load() != nil && !s.paused.Load() }

// launch starts the process.
func (s *server) launch() error {
	if s.process.Load() != nil {
		return fmt.Errorf("%s runs already", s.name)
	}
	java, err := jvm.Java()
	if err != nil {
		return err
	}
	classpath, err := jvm.ServerClasspath()
	if s.release != "" {
		classpath, err = jvm.ReleaseClasspath(s.release)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dataDir(), 0o755); err != nil {
		return err
	}
	if s.myid > 0 {
		if err := os.WriteFile(filepath.Join(s.dataDir(), "myid"), fmt.Appendln(nil, s.myid), 0o644); err != nil {
			return err
		}
	}
	config := filepath.Join(s.dir, "zoo.cfg")
	if err := os.WriteFile(config, []byte("dataDir="+s.dataDir()+"\n"+s.config), 0o644); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	if s.logFrom, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	args := append(jvm.FastStart(), s.flags...)
	args = append(args, "-cp", classpath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	cmd := exec.Command(java, args...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd)
	if err == nil {
		s.paused.Store(false)
		s.process.Store(process)
	}
	return err
}

// serve launches the process and waits until it serves. After an error no
// process is left.
func (s *server) serve(deadline time.Time) error {
	if err := s.launch(); err != nil {
		return err
	}
	err := s.awaitServing(deadline)
	if err != nil {
		s.end()
	}
	return err
}

// awaitServing polls. Neither an open port nor a line in the log means that requests are answered; a mode in the
// answer to srvr does. Its data directory proves that this server answers, and not another one that was faster to
// take the port.
func (s *server) awaitServing(deadline time.Time) error {
	process := s.process.Load()
	for {
		if s.mode() != "" && s.isSelf() {
			return nil
		}
		select {
		case <-process.Done():
			log := s.log(s.logFrom)
			if strings.Contains(log, "Address already in use") {
				return fmt.Errorf("%s: %w", s.name, errAddressInUse)
			}
			return fmt.Errorf("%s ended while starting: %v\n%s", s.name, process.Err(), log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not serve after %v\n%s", s.name, startTimeout, s.log(s.logFrom))
		}
	}
}

// mode returns the mode that the server reports: standalone, leader, follower; empty if it does not serve.
func (s *server) mode() string { return field(poll(s.addr, "srvr"), "Mode: ") }

// isSelf reports whether it is this server that answers.
func (s *server) isSelf() bool { return strings.HasPrefix(s.home(), s.dataDir()) }

// home returns the data directory of the server that answers; empty if none does.
func (s *server) home() string { return field(poll(s.addr, "conf"), "dataDir=") }

// version returns the version that a server reports once it serves, as in 3.8.0.
func (s *server) version(ctx context.Context) (version string, err error) {
	err = until(ctx, func() (bool, error) {
		version, _, _ = strings.Cut(field(poll(s.addr, "srvr"), "Zookeeper version: "), "-")
		return version != "", nil
	})
	return version, err
}

// kill ends the server with SIGKILL, paused or not.
func (s *server) kill() error {
	_, err := s.running()
	if err == nil {
		s.end()
	}
	return err
}

// end is kill for whatever is there.
func (s *server) end() {
	if process := s.process.Swap(nil); process != nil {
		process.Kill()
	}
	s.paused.Store(false)
}

// stop ends the server with SIGTERM and waits until it is gone.
func (s *server) stop() error {
	process, err := s.running()
	if err != nil {
		return err
	}
	if s.paused.Load() {
		if err := s.resume(); err != nil {
			return err
		}
	}
	s.process.Store(nil) // its end is expected
	if err := process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: SIGTERM: %w", s.name, err)
	}
	select {
	case <-process.Done():
		return nil
	case <-time.After(startTimeout):
		process.Kill()
		return fmt.Errorf("%s still ran %v after SIGTERM\n%s", s.name, startTimeout, s.log(s.logFrom))
	}
}

// pause stops the process with SIGSTOP and waits until, on Linux, no thread of
// it runs any more.
func (s *server) pause() error {
	process, err := s.running()
	if err != nil {
		return err
	}
	s.paused.Store(true)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("%s: SIGSTOP: %w", s.name, err)
	}
	deadline := time.Now().Add(startTimeout)
	for !allThreadsStopped(process.Pid()) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s still runs %v after SIGSTOP", s.name, startTimeout)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// resume continues a paused server.
func (s *server) resume() error {
	process, err := s.running()
	if err != nil {
		return err
	}
	if err := process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("%s: SIGCONT: %w", s.name, err)
	}
	s.paused.Store(false)
	return nil
}

// wipe deletes the data of a server that is down.
func (s *server) wipe() error {
	if s.process.Load() != nil {
		return fmt.Errorf("%s must be down to be wiped", s.name)
	}
	return os.RemoveAll(s.dataDir())
}

// log is the server's log from an offset on, at most its last 16 KiB.
func (s *server) log(from int64) string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	from = max(min(from, int64(len(text))), int64(len(text))-16<<10)
	return string(text[from:])
}

// until calls check every few milliseconds until it returns true or an error, or ctx ends.
func until(ctx context.Context, check func() (bool, error)) error {
	for {
		if done, err := check(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
