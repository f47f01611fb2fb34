package framework

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// Lines wait for a slow handler, in order and with their attributes, up to a limit. In place of the missing lines a line
// has their number. The next time that the handler is slow the limit is the same, and the number counts from zero again.
func TestLinesOfTheLogAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, written := logging(slog.LevelInfo)
		g := newGate()
		o := newOperationResources(nil, gatedHandler{handler.Handler(), g})
		log := o.log.With("client", 1).WithGroup("g").With("a", 2)
		for range 3 {
			g.open = make(chan struct{})
			g.shut.Store(true)
			for n := range maxQueuedLines + 10 {
				log.Info("line", "n", n)
			}
			log.Debug("not wanted")
			g.shut.Store(false)
			close(g.open)
			synctest.Wait()
			log.Info("behind")
			lines := written()
			require.Len(t, lines, maxQueuedLines+2)
			assert.Contains(t, lines[0], "msg=line client=1 g.a=2 g.n=0")
			assert.Contains(t, lines[maxQueuedLines-1], "g.n=1023")
			assert.Contains(t, lines[maxQueuedLines], "level=WARN")
			assert.Contains(t, lines[maxQueuedLines], "lines=11")
			assert.Contains(t, lines[maxQueuedLines+1], "msg=behind")
		}
		o.workers.close()
	})
}

type gatedHandler struct {
	slog.Handler
	*gate
}

func (h gatedHandler) Handle(ctx context.Context, r slog.Record) error {
	h.pass()
	return h.Handler.Handle(ctx, r)
}

func (h gatedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gatedHandler{h.Handler.WithAttrs(attrs), h.gate}
}

func (h gatedHandler) WithGroup(name string) slog.Handler {
	return gatedHandler{h.Handler.WithGroup(name), h.gate}
}

// Close returns in time, whatever the log handler does. If the handler returns, the log is complete by then.
func TestCloseAndTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		log, written := logging(slog.LevelInfo)
		c := dial(t, srv, WithLogger(log))
		connected(t, c)
		require.NoError(t, c.Close())
		lines := written()
		assert.Contains(t, lines[len(lines)-1], `msg="client closed"`)

		g := newGate()
		c = dial(t, srv, WithLogger(slog.New(gatedHandler{log.Handler(), g})), WithClosingTimeout(time.Second))
		connected(t, c)
		g.shut.Store(true)
		srv.Cut(0)
		time.Sleep(time.Minute)
		began := time.Now()
		assert.ErrorIs(t, c.Close(), ErrUnacknowledged)
		assert.LessOrEqual(t, time.Since(began), time.Second+2*closeGrace)
		close(g.open)
	})
}
