package curatorotel_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	curatorotel "github.com/go-curator/curator/contrib/otel"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/locks/orders"

// service is a traced service, with its own client and a span for each request.
type service struct {
	name   string
	tracer trace.Tracer
	lock   *mutex.Mutex
}

func newService(t *testing.T, s *zktest.Server, spans *tracetest.SpanRecorder, name string,
	opts ...curatorotel.Option) service {
	t.Helper()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	observed, err := curatorotel.New(append(opts, curatorotel.WithTracerProvider(provider))...)
	require.NoError(t, err)
	client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial),
		framework.WithSessionTimeout(10*time.Second), framework.WithHooks(observed.Hooks()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	require.NoError(t, client.WaitConnected(t.Context()))
	return service{name, provider.Tracer("test"), mutex.New(client, path)}
}

// handle handles a request, which works for a while under the lock.
func (s service) handle(ctx context.Context, work time.Duration) error {
	ctx, span := s.tracer.Start(ctx, s.name+" request")
	defer span.End()
	lock, err := s.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	_, inside := s.tracer.Start(lock.Context(), s.name+" work")
	time.Sleep(work)
	inside.End()
	return lock.Release(ctx)
}

// The documentation shows exactly the recorded traces of two services at one lock. The times are those of the virtual
// clock.
func TestTraceOfAContendedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, spans := zktest.RunT(t), tracetest.NewSpanRecorder()
		require.NoError(t, s.Create("/locks", nil))
		require.NoError(t, s.Create(path, nil))
		billing := newService(t, s, spans, "billing", curatorotel.WithLinks())
		shipping := newService(t, s, spans, "shipping", curatorotel.WithLinks())
		done := make(chan error, 1)
		go func() { done <- billing.handle(t.Context(), 3*time.Second) }()
		time.Sleep(time.Second)
		require.NoError(t, shipping.handle(t.Context(), 500*time.Millisecond))
		require.NoError(t, <-done)
		synctest.Wait()
		assert.Equal(t, block(t, "../../docs/observability.md", "```text trace"), story(spans))
	})
}

// Without links the attributes name the hold that a wait is for, and no trace data is written into nodes.
func TestAWaitNamesWhoIsInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, spans := zktest.RunT(t), tracetest.NewSpanRecorder()
		one, two := newService(t, s, spans, "one"), newService(t, s, spans, "two")
		done := make(chan error, 1)
		go func() { done <- one.handle(t.Context(), time.Second) }()
		synctest.Wait()
		holder, found, err := one.lock.Holder(t.Context())
		require.NoError(t, err)
		require.True(t, found)
		assert.Empty(t, holder.Data)
		require.NoError(t, two.handle(t.Context(), 0))
		require.NoError(t, <-done)

		hold, wait := named(t, spans, "curator mutex hold")[0], named(t, spans, "curator mutex wait")[0]
		assert.Empty(t, wait.Links())
		assert.Equal(t, value(hold, "curator.node"), value(wait, "curator.predecessor.node"))
		assert.Equal(t, value(hold, "curator.session"), value(wait, "curator.predecessor.session"))
		assert.Equal(t, value(hold, "curator.token"), value(wait, "curator.predecessor.token"))
		assert.Equal(t, fmt.Sprintf("0x%x", holder.SessionID), value(hold, "curator.session"))
	})
}

func TestFailuresAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, spans := zktest.RunT(t), tracetest.NewSpanRecorder()
		one := newService(t, s, spans, "one", curatorotel.WithLinks())
		require.NoError(t, s.Create("/locks", nil))
		require.NoError(t, s.Create(path, nil))
		for _, data := range []string{"traceparent=00-zz",
			"an address"} { // the contender ahead may have written any data
			front, err := s.CreateNode(path+"/lock-", []byte(data), zktest.PersistentSequential, 0)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, one.handle(ctx, 0), context.DeadlineExceeded)
			cancel()
			require.NoError(t, s.Delete(front))
		}
		for _, name := range []string{"curator mutex wait", "curator mutex acquire"} {
			span := named(t, spans, name)[0]
			assert.Equal(t, codes.Error, span.Status().Code)
			assert.Contains(t, span.Status().Description, "context deadline exceeded")
			assert.Empty(t, span.Links())
		}

		lock, err := one.lock.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Delete(lock.Path()))
		<-lock.Context().Done()
		synctest.Wait()
		hold := named(t, spans, "curator mutex hold")[0]
		assert.Equal(t, "node_deleted", value(hold, "curator.cause"))
		assert.Equal(t, codes.Error, hold.Status().Code)
		_ = lock.Release(t.Context())
	})
}

// named returns the spans of that name that have ended.
func named(t *testing.T, spans *tracetest.SpanRecorder, name string) (found []sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, span := range spans.Ended() {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	require.NotEmpty(t, found, name)
	return found
}

func value(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, kv := range span.Attributes() {
		if kv.Key == key {
			return kv.Value.Emit()
		}
	}
	return ""
}

var guid = regexp.MustCompile(`_c_[0-9a-f-]{36}`)

// story prints the traces: a line for each span, indented below its parent, with its start and length, its
// attributes and its links.
func story(spans *tracetest.SpanRecorder) string {
	var text strings.Builder
	started := spans.Started()
	names, zero := map[trace.SpanID]string{}, started[0].StartTime()
	for _, span := range started {
		names[span.SpanContext().SpanID()] = span.Name()
		if span.StartTime().Before(zero) {
			zero = span.StartTime()
		}
	}
	var tell func(parent sdktrace.ReadOnlySpan, depth int)
	line := func(span sdktrace.ReadOnlySpan, depth int) {
		fmt.Fprintf(&text, "%-44s at %-5v for %v", strings.Repeat("  ", depth)+span.Name(),
			span.StartTime().Sub(zero), span.EndTime().Sub(span.StartTime()))
		for _, key := range []attribute.Key{"curator.predecessor.node", "curator.cause"} {
			if v := value(span, key); v != "" {
				fmt.Fprintf(&text, ", %s=%s", strings.TrimPrefix(string(key), "curator."),
					guid.ReplaceAllString(v, "_c_…"))
			}
		}
		for _, link := range span.Links() {
			for _, to := range started {
				if to.SpanContext().SpanID() == link.SpanContext.SpanID() &&
					to.SpanContext().TraceID() == link.SpanContext.TraceID() {
					fmt.Fprintf(&text, ", linked to %q in the trace of %q", to.Name(), names[to.Parent().SpanID()])
				}
			}
		}
		fmt.Fprintln(&text)
		tell(span, depth+1)
	}
	tell = func(parent sdktrace.ReadOnlySpan, depth int) {
		for _, span := range started {
			if span.Parent().SpanID() == parent.SpanContext().SpanID() {
				line(span, depth)
			}
		}
	}
	for _, span := range started {
		if !span.Parent().IsValid() && strings.HasSuffix(span.Name(), "request") {
			line(span, 0)
		}
	}
	return text.String()
}

// block returns a document's text from a line to the end of the code block that the line begins.
func block(t *testing.T, file, from string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), from+"\n")
	require.True(t, found, "%s has no block %q", file, from)
	inside, _, _ := strings.Cut(rest, "```")
	return inside
}
