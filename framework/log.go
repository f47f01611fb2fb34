package framework

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/go-curator/curator/internal/plain"
)

// maxQueuedLines limits the log lines that wait for the user's handler. Further lines are dropped and counted.
const maxQueuedLines = 1024

// logLines are the log lines on their way to the user's handler. The handler may block or end its goroutine, so it
// runs on a separate one.
type logLines struct {
	queue            serialExecutor
	waiting, dropped atomic.Int64
}

// newLogger returns a logger that writes to handler and never waits. Only the handler decides whether a line is
// wanted, and it is asked later.
func (l *logLines) newLogger(handler slog.Handler) *slog.Logger {
	if handler == slog.DiscardHandler {
		return slog.New(handler)
	}
	return slog.New(queueingHandler{l, func() slog.Handler { return handler }})
}

// flush returns when all earlier lines are written, or shortly after the end of ctx.
func (l *logLines) flush(ctx context.Context) {
	written := make(chan error, 1)
	l.queue.enqueue(func() { written <- nil })
	_ = awaitWithGrace(ctx, written)
}

type queueingHandler struct {
	*logLines
	to func() slog.Handler // runs on the handler's goroutine
}

// Enabled implements [slog.Handler].
func (h queueingHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h queueingHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.waiting.Add(1) > maxQueuedLines {
		h.waiting.Add(-1)
		h.dropped.Add(1)
		return nil
	}
	r = r.Clone()
	missing := h.dropped.Swap(0)
	h.queue.enqueue(func() {
		defer h.waiting.Add(-1)
		to := h.to()
		if missing > 0 {
			slog.New(to).Warn("log lines are missing here, because the log handler is too slow",
				"lines", missing)
		}
		if to.Enabled(ctx, r.Level) {
			_ = to.Handle(ctx, r)
		}
	})
	return nil
}

// WithAttrs implements [slog.Handler].
func (h queueingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	to := h.to
	h.to = func() slog.Handler { return to().WithAttrs(attrs) }
	return h
}

// WithGroup implements [slog.Handler].
func (h queueingHandler) WithGroup(name string) slog.Handler {
	to := h.to
	h.to = func() slog.Handler { return to().WithGroup(name) }
	return h
}

// printableHandler passes only printable text to a user's handler, in messages and in the values of attributes,
// because other clients choose the names of nodes, and servers send texts. Errors stay errors.
type printableHandler struct{ to slog.Handler }

// Enabled implements [slog.Handler].
func (h printableHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h printableHandler) Handle(ctx context.Context, r slog.Record) error {
	made := slog.NewRecord(r.Time, r.Level, plain.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		made.AddAttrs(printableAttr(a))
		return true
	})
	return h.to.Handle(ctx, made)
}

// WithAttrs implements [slog.Handler].
func (h printableHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	made := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		made[i] = printableAttr(a)
	}
	return printableHandler{h.to.WithAttrs(made)}
}

// WithGroup implements [slog.Handler].
func (h printableHandler) WithGroup(name string) slog.Handler {
	return printableHandler{h.to.WithGroup(name)}
}

func printableAttr(a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(plain.Text(v))
	case []string:
		made := make([]string, len(v))
		for i := range v {
			made[i] = plain.Text(v[i])
		}
		a.Value = slog.AnyValue(made)
	case error:
		a.Value = slog.AnyValue(plain.Error(v))
	}
	return a
}
