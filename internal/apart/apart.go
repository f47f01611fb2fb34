// Package apart calls functions that users have given to the library, where one that does not return would do
// harm.
package apart

import "errors"

// ErrNoReturn is what comes of a call of a user's function that panics, or ends its goroutine.
var ErrNoReturn = errors.New("a function that was given to the client did not return " +
	"(a panic, or runtime.Goexit as by t.FailNow)")

// Call calls f on a goroutine of its own and waits for it: so runtime.Goexit (t.FailNow) in f ends no more
// than that, and Call is false. A panic ends the process, as it does on every goroutine that is not the
// user's.
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
