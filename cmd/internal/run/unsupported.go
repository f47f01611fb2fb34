//go:build !linux && !darwin

package run

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
)

var asks = []os.Signal{os.Interrupt}

// Signals returns a channel of the signals that ask to end, until stop.
func Signals() (signals <-chan os.Signal, stop func()) {
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, asks...)
	return heard, func() { signal.Stop(heard) }
}

// Status is the exit status of a program that ends because of the signal.
func Status(os.Signal) int { return 130 }

// Under runs nothing: here a command cannot be ended for certain.
func Under(Hold, Command) (Outcome, error) {
	return Outcome{}, errors.New("commands are not run under a hold on " + runtime.GOOS +
		": nothing here ensures that they have ended before the next holder is granted")
}
