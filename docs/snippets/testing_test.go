package snippets

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest/chaos"
)

// The code of docs/testing-your-service.md.

// sendInvoices runs in each replica. The replica with the lock sends the invoices, one after the other.
func sendInvoices(ctx context.Context, client *framework.Client, mail func(number int)) error {
	m := mutex.New(client, "/invoices/lock")
	return forever(ctx, func() error {
		return m.Do(ctx, func(ctx context.Context) error { // ends with the lock
			data, err := client.GetData().ForPath(ctx, "/invoices/next")
			if err != nil {
				return err
			}
			number, err := strconv.Atoi(string(data))
			if err != nil {
				return err
			}
			render(number)
			if ctx.Err() != nil { // rendering took a while
				return ctx.Err()
			}
			mail(number)
			_, err = client.SetData().ForPath(ctx, "/invoices/next", fmt.Append(nil, number+1))
			return err
		})
	})
}

// render takes its time, and knows nothing of contexts.
func render(int) { time.Sleep(2 * time.Second) }

// forever repeats f, a second after it has failed, until ctx ends.
func forever(ctx context.Context, f func() error) error {
	for ctx.Err() == nil {
		if err := f(); err != nil {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}

// invoices is the service in a world that goes wrong: three replicas, and what must hold.
func invoices(send func(context.Context, *framework.Client, func(int)) error) func(*chaos.World) {
	return func(w *chaos.World) {
		require.NoError(w, w.Ensemble().Member(0).Create("/invoices/next", []byte("1")))
		right, sent := w.Exclusive("sending"), w.Progress("invoices")
		for range 3 {
			w.Start("replica", func(p *chaos.Process) {
				var held atomic.Pointer[chaos.Grant]
				client, err := framework.New(w.ConnectString(), framework.WithDialer(p.Dial), framework.WithLogger(p.Logger()),
					framework.WithSessionTimeout(w.SessionTimeout()), framework.WithHooks(framework.Hooks{
						Hold: func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
							grant := right.GrantedWith(p, h.Token)
							held.Store(grant)
							return ctx, func(error) { grant.Done() }
						},
					}))
				require.NoError(w, err)
				defer client.Close()
				_ = send(p.Context(), client, func(number int) {
					held.Load().Use("invoice %d", number)
					sent.Made(p)
				})
			})
		}
	}
}

func TestInvoices(t *testing.T) { chaos.Test(t, invoices(sendInvoices), chaos.Config{Count: 50}) }

// bareInvoices is the same with go-zookeeper alone.
func bareInvoices(w *chaos.World) {
	right := w.Exclusive("sending")
	for range 3 {
		w.Start("replica", func(p *chaos.Process) {
			conn, _, err := zk.Connect(
				w.Servers(),
				w.SessionTimeout(),
				zk.WithDialer(p.Dialer()),
				zk.WithLogger(quiet{}),
			)
			require.NoError(w, err)
			defer conn.Close()
			for number := 1; p.Context().Err() == nil; {
				lock := zk.NewLock(conn, "/invoices", zk.WorldACL(zk.PermAll))
				locked := make(chan error, 1)
				go func() { locked <- lock.Lock() }()
				select {
				case err := <-locked:
					if err != nil {
						time.Sleep(time.Second)
						continue
					}
				case <-p.Context().Done(): // Lock has no context
					return
				}
				grant := right.Granted(p)
				for range 10 {
					render(number)
					grant.Use("invoice %d", number) // go-zookeeper cannot report whether the lock is still held
					number++
				}
				grant.Done()
				_ = lock.Unlock()
			}
		})
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// careless is sendInvoices as it was before: it does not look at its context after it has rendered.
func careless(ctx context.Context, client *framework.Client, mail func(number int)) error {
	m := mutex.New(client, "/invoices/lock")
	return forever(ctx, func() error {
		return m.Do(ctx, func(ctx context.Context) error {
			data, err := client.GetData().ForPath(ctx, "/invoices/next")
			if err != nil {
				return err
			}
			number, err := strconv.Atoi(string(data))
			if err != nil {
				return err
			}
			render(number)
			mail(number)
			_, err = client.SetData().ForPath(ctx, "/invoices/next", fmt.Append(nil, number+1))
			return err
		})
	})
}

func TestCarelessInvoices(t *testing.T) {
	found := chaos.Find(t, invoices(careless), chaos.Config{Count: 10_000, Shrink: -1})
	require.NotNil(t, found)
	assert.Equal(t, "sending", found.Violation.Check)
}

// The document shows this code.
func TestTheGuideToTestingHasThisCode(t *testing.T) {
	source, err := os.ReadFile("testing_test.go")
	require.NoError(t, err)
	blocks := strings.Split(read(t, "../testing-your-service.md"), "```")
	shown := 0
	for i := 1; i < len(blocks); i += 2 {
		if code, is := strings.CutPrefix(blocks[i], "go\n"); is {
			assert.Contains(t, string(source), code)
			shown++
		}
	}
	assert.Equal(t, 2, shown)
}
