package framework

import (
	"context"
	"log/slog"

	"github.com/go-curator/curator/internal/apart"
)

// apartHandler is a user's log handler for what the client's own goroutines have to say.
type apartHandler struct{ to slog.Handler }

// Enabled implements [slog.Handler].
func (h apartHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	apart.Call(func() { enabled = h.to.Enabled(ctx, level) })
	return enabled
}

// Handle implements [slog.Handler].
func (h apartHandler) Handle(ctx context.Context, r slog.Record) error {
	err := apart.ErrNoReturn
	apart.Call(func() { err = h.to.Handle(ctx, r) })
	return err
}

// WithAttrs implements [slog.Handler].
func (h apartHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	apart.Call(func() { h.to = h.to.WithAttrs(attrs) })
	return h
}

// WithGroup implements [slog.Handler].
func (h apartHandler) WithGroup(name string) slog.Handler {
	apart.Call(func() { h.to = h.to.WithGroup(name) })
	return h
}
