package framework

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// The cost of an operation in the background, one after the other and many at once: plain, decompressed, and with a hook
// for its end.
func BenchmarkBackground(b *testing.B) {
	hook := WithHooks(
		Hooks{Operation: func(context.Context, Operation) func(OperationEnd) { return func(OperationEnd) {} }},
	)
	for name, x := range map[string]struct {
		packed bool
		opts   []Option
	}{"plain": {}, "unpacked": {packed: true}, "hooked": {opts: []Option{hook}}} {
		for mode, flight := range map[string]int{"single": 1, "flight": 100} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				srv := zktest.RunT(b)
				c, err := New(srv.Addr(), append(x.opts, WithDialer(srv.Dial), WithSessionTimeout(10*time.Second))...)
				require.NoError(b, err)
				defer c.Close()
				ctx := context.Background()
				require.NoError(b, c.WaitConnected(ctx))
				_, err = c.Create().Compressed().ForPath(ctx, "/a", []byte("data"))
				require.NoError(b, err)
				read := c.GetData().InBackground()
				if x.packed {
					read = c.GetData().Decompressed().InBackground()
				}
				all := make([]*Pending[DataResult], flight)
				b.ReportAllocs()
				for b.Loop() {
					for i := range all {
						all[i] = read.ForPath(ctx, "/a")
					}
					for _, p := range all {
						_, err := p.Wait(ctx)
						require.NoError(b, err)
					}
				}
			})
		}
	}
}
