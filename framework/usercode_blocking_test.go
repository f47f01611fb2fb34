package framework

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// gate blocks functions of a test while it is shut.
type gate struct {
	shut atomic.Bool
	open chan struct{}
	hits atomic.Int32 // how many calls it has blocked
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) pass() {
	if g.shut.Load() {
		g.hits.Add(1)
		<-g.open
	}
}

// blockingCodec unpacks nothing while its gate is shut.
type blockingCodec struct {
	Gzip
	*gate
}

func (c blockingCodec) Decompress(path string, data []byte) ([]byte, error) {
	c.pass()
	return c.Gzip.Decompress(path, data)
}

// blockingHandler is a log handler that waits in one of its functions.
type blockingHandler struct{ enabled, handle, with func() }

func (h blockingHandler) Enabled(context.Context, slog.Level) bool  { h.enabled(); return true }
func (h blockingHandler) Handle(context.Context, slog.Record) error { h.handle(); return nil }
func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler        { h.with(); return h }
func (h blockingHandler) WithGroup(string) slog.Handler             { h.with(); return h }

// The client does not wait for user code where it reads replies and pings, nor where it sends heartbeats: a user's function
// that blocks for much longer than the session timeout costs no hold and no session, even if the connection is lost in that
// time.
func TestFunctionsThatBlockCostNoHold(t *testing.T) {
	nothing := func() {}
	watching := func(c *Client, g *gate) {
		c.CheckExists().Watching(func(Event) { g.pass() }).InBackground().ForPath(context.Background(), "/watched")
	}
	reading := func(c *Client, _ *gate) {
		c.GetData().Decompressed().InBackground().ForPath(context.Background(), "/packed")
		c.MultiRead().Decompressed().InBackground().ForReads(context.Background(), ReadData("/packed"),
			ReadData("/packed"))
	}
	for name, x := range map[string]struct {
		option  func(g *gate) Option
		provoke func(c *Client, g *gate)
	}{
		"codec": {func(g *gate) Option { return WithCompressionProvider(blockingCodec{Gzip{}, g}) }, reading},
		"operation ended": {func(g *gate) Option {
			return WithHooks(Hooks{Operation: func(_ context.Context, op Operation) func(OperationEnd) {
				if !op.Background {
					return nil
				}
				return func(OperationEnd) { g.pass() }
			}})
		}, reading},
		"callback": {nil, func(c *Client, g *gate) {
			c.CheckExists().InBackground().ForPath(context.Background(), "/").Then(func(ExistsResult, error) {
				g.pass()
			})
		}},
		"watch":         {nil, watching},
		"OnStateChange": {func(g *gate) Option { return OnStateChange(func(StateChange) { g.pass() }) }, nil},
		"State": {func(g *gate) Option {
			return WithHooks(Hooks{State: func(StateReport) { g.pass() }})
		}, nil},
		"RoundTrip": {func(g *gate) Option {
			return WithHooks(Hooks{RoundTrip: func(RoundTrip) { g.pass() }})
		}, nil},
		"hold ended": {func(g *gate) Option {
			return WithHooks(Hooks{Hold: func(ctx context.Context, _ HoldInfo) (context.Context, func(error)) {
				return ctx, func(error) { g.pass() }
			}})
		}, nil},
		"logger handles": {func(g *gate) Option {
			return WithLogger(slog.New(blockingHandler{nothing, g.pass, nothing}))
		}, nil},
		"logger enabled": {func(g *gate) Option {
			return WithLogger(slog.New(blockingHandler{g.pass, nothing, nothing}))
		}, nil},
		"logger with": {func(g *gate) Option {
			return WithLogger(slog.New(blockingHandler{nothing, nothing, g.pass}))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, g := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble}), newGate()
				opts := []Option{WithSessionTimeout(4 * time.Second)}
				if x.option != nil {
					opts = append(opts, x.option(g))
				}
				c := dial(t, srv, opts...)
				s := connected(t, c)
				_, err := c.Create().Compressed().ForPath(t.Context(), "/packed", []byte("data"))
				require.NoError(t, err)
				_, err = c.Create().ForPath(t.Context(), "/other", nil)
				require.NoError(t, err)
				srv.Inject(zktest.Fault{Op: "exists", PathPrefix: "/lock", Times: -1, Action: zktest.ReplyError,
					Err: zktest.ErrNoAuth}) // so that the log handler is called
				h, other := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly, OwnWatchAfter: time.Second}),
					hold(t, s, "/suspended", HoldOptions{})
				require.Equal(t, RuleHeartbeat, c.Safety().Rule)

				g.shut.Store(true)
				if x.provoke != nil {
					x.provoke(c, g)
				}
				synctest.Wait()
				require.NoError(t, srv.Create("/watched", nil))
				time.Sleep(time.Minute)
				require.NoError(t, context.Cause(h.Context()))
				srv.Cut(s.ID())
				over(t, other, ErrSuspended)
				time.Sleep(time.Minute)
				assert.NoError(t, context.Cause(h.Context()))
				assert.True(t, h.Valid())
				assert.Equal(t, 1, c.Safety().Holds)
				assert.Equal(t, StateChange{Reconnected, 1}, c.State())
				_, err = c.GetData().ForPath(t.Context(), "/other")
				assert.NoError(t, err)
				assert.Positive(t, g.hits.Load(), "nothing was called")
				g.shut.Store(false)
				close(g.open)
				synctest.Wait()
				assert.NoError(t, c.Close())
			})
		})
	}
}

// A caller whose data need no decompression does not wait for a slow provider. Callbacks are called in the order of the
// replies all the same, and operations that wait for the provider end with their context.
func TestSlowProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, d, g := zktest.RunT(t), &diary{}, newGate()
		c := dial(t, srv, WithCompressionProvider(blockingCodec{Gzip{}, g}))
		connected(t, c)
		ctx := t.Context()
		_, err := c.Create().Compressed().ForPath(ctx, "/packed", []byte("data"))
		require.NoError(t, err)
		g.shut.Store(true)

		first := c.GetData().Decompressed().InBackground().ForPath(ctx, "/packed")
		first.Then(func(r DataResult, err error) { d.add("first %s %v", r.Data, err) })
		first.Then(func(r DataResult, err error) { d.add("first again") })
		second := c.GetData().Watching(func(ev Event) {
			d.add("%v", ev.Type)
		}).InBackground().ForPath(ctx, "/packed")
		second.Then(func(DataResult, error) { d.add("second") })
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		third := c.GetData().Decompressed().WithWatch().InBackground().ForPath(limited, "/packed")
		third.Then(func(r DataResult, err error) { d.add("third %v", errors.Is(err, context.DeadlineExceeded)) })
		many := c.MultiRead().Decompressed().InBackground().ForReads(ctx, ReadData("/packed"))
		many.Then(func(r MultiReadResult, err error) {
			d.add("many %s %v", r.Results[0].Data, r.Zxid == srv.Zxid()-1)
		})

		_, err = second.Wait(ctx)
		assert.NoError(t, err, "it needs no provider")
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, srv.Set("/packed", nil))
		select {
		case <-third.Done():
			assert.Fail(t, "it waits for the provider")
		default:
		}
		_, err = third.Wait(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		assert.Empty(t, d.read(), "callbacks come in order")
		select {
		case <-first.Done():
			assert.Fail(t, "it is not unpacked yet")
		default:
		}

		close(g.open)
		synctest.Wait()
		assert.Equal(t, []string{"first data <nil>", "first again", "second", "third true", "many data true",
			"NodeDataChanged"}, d.read())
		assert.Empty(t, srv.Watches(), "nor has the one that was left kept its watch")
	})
}
