// Package bed lets a program use test helpers: the servers and peers of the module integration start with a
// testing.TB, and end with it.
package bed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Bed is the part of a testing.TB that those packages use; anything else panics. Calls that may fail the "test"
// go through Try. Safe for concurrent use.
type Bed struct {
	testing.TB // nil

	dir string

	mu       sync.Mutex
	temps    int
	failed   bool
	log      []string
	cleanups []func()
}

// New returns one whose temporary directories are in dir.
func New(dir string) *Bed { return &Bed{dir: dir} }

// failure is the value of Fatal's panic.
type failure struct{ error }

// Try calls f, and returns a Fatal of it as an error.
func (b *Bed) Try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// End calls the cleanups, the last first. After a failure the error has the log.
func (b *Bed) End() error {
	b.mu.Lock()
	cleanups := b.cleanups
	b.cleanups = nil
	b.mu.Unlock()
	var errs []error
	for _, f := range slices.Backward(cleanups) {
		errs = append(errs, b.Try(f))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed {
		errs = append(errs, errors.New(strings.Join(b.log, "\n")))
	}
	return errors.Join(errs...)
}

// Helper does nothing.
func (b *Bed) Helper() {}

// TempDir makes a directory. It is left to the owner of the directory around it.
func (b *Bed) TempDir() string {
	b.mu.Lock()
	b.temps++
	dir := filepath.Join(b.dir, fmt.Sprintf("temp%d", b.temps))
	b.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	return dir
}

// Cleanup has f called by End.
func (b *Bed) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

// Log keeps the message for End.
func (b *Bed) Log(args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, fmt.Sprint(args...))
}

// Logf is Log with a format.
func (b *Bed) Logf(format string, args ...any) { b.Log(fmt.Sprintf(format, args...)) }

// Fatal ends the function given to Try.
func (b *Bed) Fatal(args ...any) {
	b.mu.Lock()
	b.failed = true
	b.mu.Unlock()
	panic(failure{errors.New(fmt.Sprint(args...))})
}

// Fatalf is Fatal with a format.
func (b *Bed) Fatalf(format string, args ...any) { b.Fatal(fmt.Sprintf(format, args...)) }

// Failed reports whether there was a Fatal.
func (b *Bed) Failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}
