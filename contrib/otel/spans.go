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
		endSpan(span, end.Err)
		i.recordTime(ctx, i.operations, began, attribute.String("curator.operation", op.Name), resultAttribute(end.Err))
	}
}

func (i *Instrumentation) acquire(ctx context.Context, a framework.Acquisition) (context.Context,
	func(error)) {
	ctx, span := i.tracer.Start(ctx, "curator "+printable(a.Recipe)+" acquire",
		trace.WithAttributes(text("curator.path", a.Path)))
	began := time.Now()
	return ctx, func(err error) {
		endSpan(span, err)
		i.recordTime(ctx, i.acquisitions, began, recipeAttribute(a.Recipe), resultAttribute(err))
	}
}

func (i *Instrumentation) wait(ctx context.Context, q framework.Queue) func(error) {
	options := []trace.SpanStartOption{trace.WithAttributes(
		text("curator.path", q.Path), text("curator.node", path.Join(q.Path, q.Node)),
		attribute.Int("curator.queue.ahead", q.Ahead), attribute.Int("curator.queue.length", q.Length))}
	if q.Predecessor != "" {
		options = append(options, trace.WithAttributes(
			text("curator.predecessor.node", path.Join(q.Path, q.Predecessor)),
			sessionAttribute("curator.predecessor.session", q.PredecessorSession),
			attribute.Int64("curator.predecessor.token", q.PredecessorToken)))
	}
	if predecessor := traceIn(q.PredecessorData); i.links && predecessor.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: predecessor}))
	}
	ctx, span := i.tracer.Start(ctx, "curator "+printable(q.Recipe)+" wait", options...)
	began := time.Now()
	return func(err error) {
		endSpan(span, err)
		i.recordTime(ctx, i.waits, began, recipeAttribute(q.Recipe))
	}
}

func (i *Instrumentation) hold(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
	ctx, span := i.tracer.Start(ctx, "curator "+printable(h.Recipe)+" hold", trace.WithAttributes(
		text("curator.node", h.Path), sessionAttribute("curator.session", h.SessionID),
		attribute.Int64("curator.token", h.Token),
		attribute.Int64("curator.epoch", h.Epoch)))
	began := time.Now()
	return ctx, func(cause error) {
		span.SetAttributes(attribute.String("curator.cause", resultOf(cause)))
		if errors.Is(cause, framework.ErrReleased) || errors.Is(cause, context.Canceled) {
			cause = nil // the hold was not lost, so the span is no error
		}
		endSpan(span, cause)
		i.recordTime(ctx, i.holds, began, recipeAttribute(h.Recipe), resultAttribute(cause))
	}
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, printable(err.Error()))
	}
	span.End()
}

// sessionAttribute is an attribute with a session id, written as in the servers' logs.
func sessionAttribute(key string, id int64) attribute.KeyValue {
	return attribute.String(key, fmt.Sprintf("0x%x", uint64(id)))
}
