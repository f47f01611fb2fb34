package framework

import (
	"context"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A hold ends in time, and its context reports that, even while another goroutine holds the lock of the session's state:
// for example the goroutine that reads from the network, during a slow lookup for an event.
func TestHoldEndsWhileTheSessionIsLocked(t *testing.T) {
	for _, rule := range []Rule{RuleBound, RuleHeartbeat} {
		t.Run(rule.String(), func(t *testing.T) {
			// A goroutine that waits for a mutex in a bubble stops the bubble's clock for ever. The real clock, outside,
			// continues.
			var locked atomic.Pointer[sync.Mutex]
			var waited atomic.Bool
			rescue := time.AfterFunc(10*time.Second, func() {
				if mu := locked.Swap(nil); mu != nil {
					waited.Store(true)
					mu.Unlock()
				}
			})
			defer rescue.Stop()
			synctest.Test(t, func(t *testing.T) {
				srv, home := zktest.RunT(t), make(chan struct{})
				var away atomic.Bool
				c := dial(t, srv, WithRule(rule), WithDialer(func(
					ctx context.Context, network, addr string,
				) (net.Conn, error) {
					if away.Load() { // only the clock may end the holds
						<-home
					}
					return srv.Dial(ctx, network, addr)
				}))
				s := connected(t, c)
				holds := []*Hold{
					hold(t, s, "/1", HoldOptions{Loss: SessionOnly}), hold(t, s, "/2", HoldOptions{Loss: SessionOnly}),
					hold(t, s, "/3", HoldOptions{Loss: SessionOnly}),
				}
				time.Sleep(time.Second) // they watch their nodes
				away.Store(true)
				srv.Cut(s.ID())
				time.Sleep(time.Second) // now the client is dialling
				require.True(t, holds[0].Valid())
				left := holds[0].Remaining()

				mu := (*sync.Mutex)(reflect.ValueOf(s.epoch.wire).Elem().FieldByName("mu").Addr().UnsafePointer())
				mu.Lock()
				locked.Store(mu)
				began := time.Now()
				for _, h := range holds {
					over(t, h, ErrSessionLost)
				}
				assert.Equal(t, left, time.Since(began))
				assert.Zero(t, c.Safety().Holds)
				assert.False(t, waited.Load(), "it waits for the session's lock")
				if mu := locked.Swap(nil); mu != nil {
					mu.Unlock()
				}
				close(home)
			})
		})
	}
}

// As soon as a hold is not valid its context has ended, with the cause, even if the goroutine that ends the hold has not
// ended the context yet.
func TestWhatIsNotValidHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := connected(t, dial(t, zktest.RunT(t)))
		for name, ask := range map[string]func(h *Hold){
			"Valid":     func(h *Hold) { assert.False(t, h.Valid()) },
			"Remaining": func(h *Hold) { assert.Zero(t, h.Remaining()) },
			"End":       func(h *Hold) { h.End(nil) },
		} {
			h := newHold(s.epoch, "/"+name, HoldOptions{})
			h.mu.Lock()
			h.cause = ErrNodeDeleted // as in the middle of end
			h.mu.Unlock()
			ask(h)
			select {
			case <-h.ctx.Context.Done():
				assert.Equal(t, ErrNodeDeleted, context.Cause(h.ctx.Context), name)
			default:
				assert.Fail(t, "its context goes on", name)
			}
			h.cancelContext(nil)
		}
	})
}
