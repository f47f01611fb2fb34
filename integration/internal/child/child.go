// Package child runs processes that do not outlive the test which started
// them: a real ZooKeeper, a Java program.
package child

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running or finished child. All methods are safe for concurrent
// use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; readable once done is closed
}

// Start runs cmd. On Linux the kernel kills the child when this process dies,
// however it dies; elsewhere the caller's clean-up is all there is.
//
// The goroutine that forks stays locked to its thread until the child has been
// waited for, because the kernel's promise is tied to the forking thread and
// would be called in when the Go runtime retires that thread.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithParent(cmd)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid is the process id, also after the end of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the end of the process and returns its error; nil is exit status 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends s. A process that has already ended is not an error.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && err != os.ErrProcessDone {
		return err
	}
	return nil
}

// Kill sends SIGKILL, which also ends a stopped process, and waits.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
