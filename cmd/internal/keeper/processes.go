//go:build linux || darwin

package keeper

import (
	"errors"
	"syscall"
)

// Exit is the end of a child.
type Exit struct {
	PID    int
	Status int  // 128 and the number if a signal has ended it
	Last   bool // no child is left
}

// Reap waits for all children of this process, also for the adopted ones, and reports the end of each. The channel is
// closed when there are none left. The process must not wait for its children in any other way. A child that Ctrl-Z
// has stopped is continued, since no shell would do that.
func Reap() <-chan Exit {
	reaped := make(chan Exit, 16)
	go func() { // it ends with the last child
		defer close(reaped)
		var ended []Exit
		for options := 0; ; {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, options|syscall.WUNTRACED, nil)
			last := err != nil && !errors.Is(err, syscall.EINTR)
			switch {
			case pid > 0 && status.Signaled():
				ended, options = append(ended, Exit{PID: pid, Status: 128 + int(status.Signal())}), syscall.WNOHANG
			case pid > 0 && status.Exited():
				ended, options = append(ended, Exit{PID: pid, Status: status.ExitStatus()}), syscall.WNOHANG
			case pid > 0 && status.Stopped() && status.StopSignal() == syscall.SIGTSTP:
				_ = syscall.Kill(pid, syscall.SIGCONT)
				_ = syscall.Kill(-pid, syscall.SIGCONT)
			case last || pid == 0: // all that have ended are known
				for i, exit := range ended {
					exit.Last = last && i == len(ended)-1
					reaped <- exit
				}
				ended, options = nil, 0
			}
			if last {
				return
			}
		}
	}()
	return reaped
}

// Gone reports whether the process group is empty.
func Gone(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }

// Signal sends a signal to the process group and, where they can be found, to all others that descend from
// this process.
func Signal(group int, s syscall.Signal) {
	_ = syscall.Kill(-group, s)
	for _, pid := range findStrays(group) {
		_ = syscall.Kill(pid, s)
	}
}
