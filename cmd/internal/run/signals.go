//go:build linux || darwin

package run

import (
	"os"
	"os/signal"
	"syscall"
)

// asks are the signals that ask to end, passed all that are passed on.
var (
	asks   = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}
	passed = append([]os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}, asks...)
)

// Signals returns a channel of the signals that a command should get, until stop. A signal that was ignored when the
// program started stays ignored, by the command, too (nohup). And Ctrl-Z does nothing any more: a stopped process
// loses the hold.
func Signals() (signals <-chan os.Signal, stop func()) {
	heard, dropped := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGTSTP)
	for _, s := range passed {
		if !signal.Ignored(s) {
			signal.Notify(heard, s)
		}
	}
	return heard, func() { signal.Stop(heard); signal.Stop(dropped) }
}

// Status is the exit status of a program that ends because of the signal.
func Status(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return 1
}
