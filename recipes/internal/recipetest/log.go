package recipetest

import (
	"log/slog"
	"strings"
	"sync"
)

// Log collects what is logged, also on the garbage collector's goroutine. The zero value is ready.
type Log struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger logs to it.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
