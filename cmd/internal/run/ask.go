package run

import (
	"context"
	"os"
	"slices"
)

// Asked is the cause of a context that ended because a signal asked to end.
type Asked struct{ Signal os.Signal }

func (a Asked) Error() string { return a.Signal.String() }

// UntilAsked returns a context that ends, with the cause [Asked], when one of the signals asks to end. stop must be
// called, and returns when the signals can be received by another goroutine. It does not end the context.
func UntilAsked(ctx context.Context, signals <-chan os.Signal) (asked context.Context, stop func()) {
	asked, cancel := context.WithCancelCause(ctx)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-signals:
				if Asks(s) {
					cancel(Asked{s})
					return
				}
			case <-end:
				return
			}
		}
	}()
	return asked, func() {
		close(end)
		<-ended
	}
}

// Asks reports whether the signal asks to end.
func Asks(s os.Signal) bool { return slices.Contains(asks, s) }
