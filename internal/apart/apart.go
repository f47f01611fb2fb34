// Package apart calls each user function on a separate goroutine: runtime.Goexit in one ends no goroutine of the library.
package apart

import "errors"

// ErrNoReturn means that a user's function panicked or ended its goroutine.
var ErrNoReturn = errors.New("a function given to the client did not return: it panicked, " +
	"or called runtime.Goexit (as t.FailNow does)")

// Call calls f on a goroutine of its own and waits for it. If f calls runtime.Goexit, as t.FailNow does, only
// that goroutine ends, and Call returns false. A panic in f ends the process, as on every goroutine that is
// not the user's.
func Call(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
		returned = true
	}()
	<-done
	return returned
}
