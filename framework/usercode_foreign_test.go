package framework

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/zktest"
)

// once ends the goroutine of its first call, as t.FailNow does.
type once struct{ struck atomic.Bool }

func (o *once) call() {
	if o.struck.CompareAndSwap(false, true) {
		runtime.Goexit()
	}
}

// A callback that ends its goroutine ends no other callback.
func TestGoexitInACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, d := zktest.RunT(t), &diary{}
		c := dial(t, srv)
		connected(t, c)
		var fault once
		_, err := c.Watches().Add().Watching(func(ev Event) {
			fault.call()
			d.add("%v", ev.Type)
		}).ForPath(t.Context(), "/a")
		require.NoError(t, err)
		require.NoError(t, srv.Create("/a", nil)) // ends it
		require.NoError(t, srv.Set("/a", nil))
		assert.Equal(t, []string{"NodeDataChanged"}, d.read())

		p := c.GetData().InBackground().ForPath(t.Context(), "/a")
		p.Then(func(DataResult, error) { runtime.Goexit() })
		p.Then(func(DataResult, error) { d.add("behind it") })
		p.Then(nil)
		assert.Equal(t, []string{"behind it"}, d.read())
		assert.NoError(t, c.Close())
	})
}

// A user's function that the client calls may end its goroutine: the client continues to work through the loss of a
// connection and of a session, and all callbacks are called as before.
func TestGoexitInWhatTheClientCalls(t *testing.T) {
	var fault *once
	gzip := Gzip{}
	for name, opt := range map[string]func(srv *zktest.Server) Option{
		"OnStateChange": func(*zktest.Server) Option { return OnStateChange(func(StateChange) { fault.call() }) },
		"State": func(*zktest.Server) Option {
			return WithHooks(Hooks{State: func(StateReport) { fault.call() }})
		},
		"RoundTrip": func(*zktest.Server) Option {
			return WithHooks(Hooks{RoundTrip: func(RoundTrip) { fault.call() }})
		},
		"hold ended": func(*zktest.Server) Option {
			return WithHooks(Hooks{Hold: func(ctx context.Context, _ HoldInfo) (context.Context, func(error)) {
				return ctx, func(error) { fault.call() }
			}})
		},
		"operation ended": func(*zktest.Server) Option {
			return WithHooks(Hooks{Operation: func(_ context.Context, op Operation) func(OperationEnd) {
				if !op.Background {
					return nil
				}
				return func(OperationEnd) { fault.call() }
			}})
		},
		"codec": func(*zktest.Server) Option {
			return WithCompressionProvider(failingCodec{gzip, func() { fault.call() }})
		},
		"dialer": func(srv *zktest.Server) Option {
			return WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				fault.call()
				return srv.Dial(ctx, network, addr)
			})
		},
		"logger": func(*zktest.Server) Option {
			return WithLogger(slog.New(failingHandler{func() { fault.call() }}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fault = &once{}
				srv := zktest.RunT(t)
				c := dial(t, srv, opt(srv))
				next := changesOf(t, c)
				s := connected(t, c)
				next(StateChange{Connected, 1})
				h := hold(t, s, "/lock", HoldOptions{})
				_, err := c.Create().Compressed().ForPath(t.Context(), "/packed", []byte("data"))
				require.NoError(t, err)
				r, err := c.GetData().Decompressed().InBackground().ForPath(t.Context(), "/packed").Wait(t.Context())
				if name == "codec" {
					require.ErrorIs(t, err, apart.ErrNoReturn)
				} else {
					require.NoError(t, err)
					assert.Equal(t, "data", string(r.Data))
				}
				time.Sleep(10 * time.Second) // pings
				srv.Cut(s.ID())
				next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
				over(t, h, ErrSuspended)
				srv.Expire(s.ID())
				next(StateChange{Suspended, 1}, StateChange{Lost, 1}, StateChange{Reconnected, 2})
				_, err = c.GetData().Decompressed().InBackground().ForPath(t.Context(), "/packed").Wait(t.Context())
				require.NoError(t, err)
				assert.True(t, fault.struck.Load())
				assert.NoError(t, c.Close())
			})
		})
	}
}

type failingCodec struct {
	Gzip
	fault func()
}

func (c failingCodec) Decompress(path string, data []byte) ([]byte, error) {
	c.fault()
	return c.Gzip.Decompress(path, data)
}

type failingHandler struct{ fault func() }

func (h failingHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (h failingHandler) Handle(context.Context, slog.Record) error { h.fault(); return nil }
func (h failingHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h failingHandler) WithGroup(string) slog.Handler             { return h }

// Functions that block delay only the calls queued behind them: holds end, heartbeats are sent, the session is kept.
func TestFunctionsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, free := zktest.RunT(t), make(chan struct{})
		var mu sync.Mutex
		var told []StateChange
		c := dial(t, srv, WithRule(RuleHeartbeat), OnStateChange(func(s StateChange) {
			<-free
			mu.Lock()
			defer mu.Unlock()
			told = append(told, s)
		}), WithHooks(Hooks{
			RoundTrip: func(RoundTrip) { <-free },
			Hold: func(ctx context.Context, _ HoldInfo) (context.Context, func(error)) {
				return ctx, func(error) { <-free }
			},
		}))
		s := connected(t, c)
		c.GetData().InBackground().ForPath(t.Context(), "/").Then(func(DataResult, error) { <-free })
		a, b := hold(t, s, "/a", HoldOptions{}), hold(t, s, "/b", HoldOptions{})
		time.Sleep(time.Minute)
		assert.True(t, a.Valid() && b.Valid())
		srv.Cut(s.ID())
		synctest.Wait()
		over(t, a, ErrSuspended)
		over(t, b, ErrSuspended)
		time.Sleep(time.Minute)
		assert.Equal(t, StateChange{Reconnected, 1}, c.State())
		close(free)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []StateChange{{Connected, 1}, {Suspended, 1}, {Reconnected, 1}}, told)
	})
}

// A read that sets a watch, and whose codec panics on the data, leaves no watch when the caller recovers. The hook for its
// end is called.
func TestPanicInAReadLeavesNothing(t *testing.T) {
	for exit, how := range map[string]func(){"panic": func() { panic("codec") }, "Goexit": runtime.Goexit} {
		t.Run(exit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, d := zktest.RunT(t), &diary{}
				c := dial(t, srv, WithHooks(d.operations()), WithCompressionProvider(failingCodec{Gzip{}, how}))
				connected(t, c)
				require.NoError(t, srv.Create("/a", []byte("data")))
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_, _, _ = c.GetData().Decompressed().WithWatch().ForPath(t.Context(), "/a")
				}()
				<-done
				synctest.Wait()
				assert.Empty(t, srv.Watches())
				assert.Equal(t, []string{"getData /a, background false", "getData: 1 tries, epoch 1, getData /a: " +
					apart.ErrNoReturn.Error()}, d.read())
			})
		})
	}
}

// A dialer that returns neither a connection nor an error counts as a failed dialer.
func TestDialerReturnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, nil }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.WaitConnected(ctx)
		require.ErrorIs(t, err, ErrNotConnected)
		require.ErrorIs(t, err, ErrInvalidOption)
		assert.ErrorContains(t, err, "dialer")
	})
}
