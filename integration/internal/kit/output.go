package kit

import (
	"io"
	"sync"
	"testing"
)

// output is the test's, and nothing once the test is over: the garbage collector may find a lock that the
// test has dropped only then, and the client warns of it.
func output(t testing.TB) io.Writer {
	w := &untilTheEnd{to: t.Output()}
	t.Cleanup(w.end)
	return w
}

type untilTheEnd struct {
	mu sync.Mutex
	to io.Writer
}

func (w *untilTheEnd) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func (w *untilTheEnd) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = io.Discard
}
