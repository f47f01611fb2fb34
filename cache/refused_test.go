package cache_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// ticket is a login that fails while it has run out.
type ticket struct{ out atomic.Bool }

func (*ticket) Name() string { return "TICKET" }

func (l *ticket) Start(context.Context, string) (framework.SASLLogin, error) {
	if l.out.Load() {
		return nil, errors.New("no ticket")
	}
	return l, nil
}

func (*ticket) Step([]byte) (response []byte, done bool, err error) { return []byte{}, true, nil }

// attempts counts what a client is asked for in the background, and says when that is more than anybody with
// sense asks for. In virtual time nothing else would end a cache that asks without a pause.
type attempts struct {
	n    atomic.Int64
	many chan struct{}
}

func (a *attempts) hooks() framework.Hooks {
	count := func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
		if op.Background && a.n.Add(1) == 20_000 {
			close(a.many)
		}
		return nil
	}
	return framework.Hooks{Operation: count}
}

// pass lets time pass.
func (a *attempts) pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-a.many:
		require.Fail(t, "the cache asks without a pause")
	case <-time.After(d):
	}
}

// While no server accepts the login every request is refused at once. The cache asks from time to time, and
// goes on when it is accepted.
func TestWhileTheLoginIsRefused(t *testing.T) {
	for name, opts := range watching {
		t.Run(name, func(t *testing.T) {
			bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
				grow(t, srv, "/r", 500)
				login, asked := &ticket{}, &attempts{many: make(chan struct{})}
				c := dial(t, srv, framework.WithSASL(login), framework.WithHooks(asked.hooks()),
					framework.WithSessionTimeout(5*time.Minute))
				loaded := open(t, c, "/r", opts...)
				// Something to read later, from a time when the login was in order.
				require.NoError(t, srv.Delete("/r/dir-0001/node-00000100"))
				login.out.Store(true)
				srv.Cut(0)
				asked.pass(t, 2*time.Second)
				require.ErrorIs(t, c.Health().Err(), framework.ErrAuthFailed)
				late, err := cache.NewTree(c, "/r", opts...) // the session lives
				require.NoError(t, err)
				defer late.Close()
				asked.n.Store(0)
				asked.pass(t, time.Minute)
				assert.Less(t, asked.n.Load(), int64(200), "requests in a minute")
				create(t, srv, "/r/new")

				login.out.Store(false)
				asked.pass(t, 15*time.Second)
				for _, tree := range []*cache.Cache{loaded, late} {
					require.NoError(t, tree.WaitSynced(t.Context()))
					same(t, srv, tree)
				}
				require.NoError(t, srv.Set("/r/new", []byte("newer")))
				settle()
				same(t, srv, late)
				same(t, srv, loaded)
			})
		})
	}
}
