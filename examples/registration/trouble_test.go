package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/zktest"
)

const own = "/services/web/host-7"

// registered is a process that has registered, and an observer of the service.
type registered struct {
	t      *testing.T
	server *zktest.Server
	client *framework.Client
	me     *group.Member
	leave  func()

	mu   sync.Mutex
	told []string // guarded by mu
}

func register(t *testing.T) *registered {
	r := &registered{t: t, server: zktest.RunT(t)}
	connect := func() *framework.Client {
		c, err := framework.New(r.server.Addr(), framework.WithDialer(r.server.Dial),
			framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	r.client = connect()
	watching, err := group.Watch(connect(), "/services/web")
	require.NoError(t, err)
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	work.Go(func() {
		for event, err := range watching.Follow(context.Background()) {
			if err != nil {
				return
			}
			r.mu.Lock()
			r.told = append(r.told, event.String())
			r.mu.Unlock()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan *group.Member), make(chan error, 1)
	work.Go(func() {
		ended <- serve(ctx, r.client, "web", "host-7", instance{Address: "10.0.0.7:80"},
			func(ctx context.Context, me *group.Member) error {
				started <- me
				<-ctx.Done()
				return nil
			})
	})
	r.me = <-started
	r.leave = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		watching.Close()
	})
	t.Cleanup(r.leave)
	require.Contains(t, r.events(), "host-7 joined")
	return r
}

// session returns the session of the registration's node; 0 if there is none.
func (r *registered) session() int64 {
	_, stat, err := r.server.Get(own)
	if err != nil {
		return 0
	}
	return stat.EphemeralOwner
}

func (r *registered) events() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// The session expires, and the connection is cut once more while the process registers again.
func TestAnExpiryAndACutWhileRegisteringAgain(t *testing.T) {
	for _, fault := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		synctest.Test(t, func(t *testing.T) {
			r := register(t)
			before := r.session()
			r.server.Inject(zktest.Fault{Op: zktest.OpCreate2, PathPrefix: own, Action: fault})
			r.server.Expire(before)
			time.Sleep(30 * time.Second)
			assert.NotZero(t, r.session(), "it is back")
			assert.NotEqual(t, before, r.session(), "and belongs to the new session")
			assert.Contains(t, r.events(), "host-7 left")
		})
	}
}

func TestWhoHasLeftStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		r.leave()
		require.Zero(t, r.session())
		for _, s := range r.server.Sessions() {
			r.server.Expire(s.ID)
		}
		time.Sleep(time.Minute)
		assert.Zero(t, r.session())
	})
}

func TestANodeThatSomebodyDeletesIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		require.NoError(t, r.server.Delete(own))
		time.Sleep(time.Second)
		assert.NotZero(t, r.session())
	})
}

func TestOthersAreToldOfOtherData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		require.NoError(t, r.me.SetData(t.Context(), []byte(`{"Address":"10.0.0.8:80"}`)))
		r.server.Cut(0)
		time.Sleep(time.Second)
		assert.Contains(t, r.events(), "host-7 changed")
	})
}
