package framework

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/go-curator/curator/internal/plain"
)

// maxQueuedLines limits the log lines that wait for the user's handler. Further lines are dropped and counted.
const maxQueuedLines = 1024

// logLines queues log lines for the user's handler. The handler may block or end its goroutine, so it runs on a
// separate goroutine, which belongs to queue.
type logLines struct {
	queue            serialExecutor
	waiting, dropped atomic.Int64 // lines in the queue; lines dropped since the last line that was queued
}

// newLogger returns a logger that queues its lines for handler and never waits.
func (l *logLines) newLogger(handler slog.Handler) *slog.Logger {
	if handler == slog.DiscardHandler {
		return slog.New(handler)
	}
	return slog.New(queueingHandler{l, func() slog.Handler { return handler }})
}

// flush returns when all earlier lines are written, or closeGrace after the end of ctx.
func (l *logLines) flush(ctx context.Context) {
	written := make(chan error, 1)
	l.queue.enqueue(func() { written <- nil })
	_ = awaitWithGrace(ctx, written)
}

// queueingHandler queues each record in logLines.
type queueingHandler struct {
	*logLines
	target func() slog.Handler // the user's handler with the attributes and groups; runs user code, so only called in the queue
}

// Enabled implements [slog.Handler]. Handle calls the user's Enabled, which may block, on the other goroutine.
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
		target := h.target()
		if missing > 0 {
			slog.New(target).Warn("log lines are missing here, because the log handler is too slow",
				"lines", missing)
		}
		if target.Enabled(ctx, r.Level) {
			_ = target.Handle(ctx, r)
		}
	})
	return nil
}

// WithAttrs implements [slog.Handler].
func (h queueingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	target := h.target
	h.target = func() slog.Handler { return target().WithAttrs(attrs) }
	return h
}

// WithGroup implements [slog.Handler].
func (h queueingHandler) WithGroup(name string) slog.Handler {
	target := h.target
	h.target = func() slog.Handler { return target().WithGroup(name) }
	return h
}

// printableHandler escapes unprintable characters in messages and in the values of attributes before it passes a record
// to the user's handler: other clients choose the names of nodes, and servers send texts. An error stays an error, so
// that errors.Is works.
type printableHandler struct{ target slog.Handler }

// Enabled implements [slog.Handler].
func (h printableHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.target.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h printableHandler) Handle(ctx context.Context, r slog.Record) error {
	printable := slog.NewRecord(r.Time, r.Level, plain.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		printable.AddAttrs(printableAttr(a))
		return true
	})
	return h.target.Handle(ctx, printable)
}

// WithAttrs implements [slog.Handler].
func (h printableHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	printable := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		printable[i] = printableAttr(a)
	}
	return printableHandler{h.target.WithAttrs(printable)}
}

// WithGroup implements [slog.Handler].
func (h printableHandler) WithGroup(name string) slog.Handler {
	return printableHandler{h.target.WithGroup(name)}
}

func printableAttr(a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(plain.Text(v))
	case []string:
		printable := make([]string, len(v))
		for i := range v {
			printable[i] = plain.Text(v[i])
		}
		a.Value = slog.AnyValue(printable)
	case error:
		a.Value = slog.AnyValue(plain.Error(v))
	}
	return a
}
