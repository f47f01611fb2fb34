package curatorotel

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-curator/curator/framework"
)

func (i *Instrumentation) operation(ctx context.Context,
	op framework.Operation) func(framework.OperationEnd) {
	ctx, span := i.tracer.Start(ctx, "curator "+op.Name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			text("curator.path", op.Path), attribute.Bool("curator.background", op.Background)))
	began := time.Now()
	return func(end framework.OperationEnd) {
		span.SetAttributes(attribute.Int("curator.attempts", end.Attempts),
			attribute.Int64("curator.epoch", end.Epoch))
		finish(span, end.Err)
		i.took(ctx, i.operations, began, attribute.String("curator.operation", op.Name), result(end.Err))
	}
}

func (i *Instrumentation) acquire(ctx context.Context, a framework.Acquisition) (context.Context,
	func(error)) {
	ctx, span := i.tracer.Start(ctx, "curator "+printable(a.Recipe)+" acquire",
		trace.WithAttributes(text("curator.path", a.Path)))
	began := time.Now()
	return ctx, func(err error) {
		finish(span, err)
		i.took(ctx, i.acquisitions, began, recipe(a.Recipe), result(err))
	}
}

func (i *Instrumentation) wait(ctx context.Context, q framework.Queue) func(error) {
	options := []trace.SpanStartOption{trace.WithAttributes(
		text("curator.path", q.Path), text("curator.node", path.Join(q.Path, q.Node)),
		attribute.Int("curator.queue.ahead", q.Ahead), attribute.Int("curator.queue.length", q.Length))}
	if q.Predecessor != "" {
		options = append(options, trace.WithAttributes(
			text("curator.predecessor.node", path.Join(q.Path, q.Predecessor)),
			session("curator.predecessor.session", q.PredecessorSession),
			attribute.Int64("curator.predecessor.token", q.PredecessorToken)))
	}
	if holder := writtenIn(q.PredecessorData); i.links && holder.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: holder}))
	}
	ctx, span := i.tracer.Start(ctx, "curator "+printable(q.Recipe)+" wait", options...)
	began := time.Now()
	return func(err error) {
		finish(span, err)
		i.took(ctx, i.waits, began, recipe(q.Recipe))
	}
}

func (i *Instrumentation) hold(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
	ctx, span := i.tracer.Start(ctx, "curator "+printable(h.Recipe)+" hold", trace.WithAttributes(
		text("curator.node", h.Path), session("curator.session", h.SessionID),
		attribute.Int64("curator.token", h.Token),
		attribute.Int64("curator.epoch", h.Epoch)))
	began := time.Now()
	return ctx, func(cause error) {
		span.SetAttributes(attribute.String("curator.cause", word(cause)))
		if errors.Is(cause, framework.ErrReleased) || errors.Is(cause, context.Canceled) {
			cause = nil // as it should be
		}
		finish(span, cause)
		i.took(ctx, i.holds, began, recipe(h.Recipe), result(cause))
	}
}

func finish(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, printable(err.Error()))
	}
	span.End()
}

// session formats a session id as the servers' logs do.
func session(key string, id int64) attribute.KeyValue {
	return attribute.String(key, fmt.Sprintf("0x%x", uint64(id)))
}
