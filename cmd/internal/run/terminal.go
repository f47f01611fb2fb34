//go:build linux || darwin

package run

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// foreground gives the terminal, if this process has it in the foreground, to the command's process group: it may
// read from the terminal, and is interrupted by Ctrl-C. back takes the terminal back.
func foreground(group int) (back func()) {
	const terminal = 0 // standard input
	own := unix.Getpgrp()
	if front, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP); err != nil || front != own {
		return func() {}
	}
	if unix.IoctlSetPointerInt(terminal, unix.TIOCSPGRP, group) != nil {
		return func() {}
	}
	_ = unix.Kill(-group, unix.SIGCONT) // it may have tried to read too early
	return func() {
		if front, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP); err != nil || front != group {
			return // the shell has it
		}
		signal.Ignore(syscall.SIGTTOU) // which stops a background process that does the following
		_ = unix.IoctlSetPointerInt(terminal, unix.TIOCSPGRP, own)
		signal.Reset(syscall.SIGTTOU)
	}
}
