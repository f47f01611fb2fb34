package framework

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// diary records lines that hooks add.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// read returns the lines written since the last call, once all goroutines wait.
func (d *diary) read() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *diary) operations() Hooks {
	return Hooks{Operation: func(_ context.Context, op Operation) func(OperationEnd) {
		d.add("%s %s, background %v", op.Name, op.Path, op.Background)
		return func(end OperationEnd) {
			d.add("%s: %d tries, epoch %d, %v", op.Name, end.Attempts, end.Epoch, end.Err)
		}
	}}
}

func TestHooksSeeOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, d := zktest.RunT(t), &diary{}
		c := dial(t, srv, WithHooks(d.operations()), WithRetry(retry.RetryNTimes{Retries: 2}), WithNamespace("ns"))
		connected(t, c)
		ctx := t.Context()

		_, err := c.Create().ForPath(ctx, "/a", nil)
		require.NoError(t, err)
		assert.Equal(t, []string{"create /a, background false", "create: 1 tries, epoch 1, <nil>"}, d.read())

		_, err = c.GetData().ForPath(ctx, "/none")
		require.ErrorIs(t, err, ErrNoNode)
		assert.Equal(t, []string{"getData /none, background false",
			"getData: 1 tries, epoch 1, getData /none: node does not exist"}, d.read())

		srv.Inject(zktest.Fault{Op: "exists", Action: zktest.LoseReply, Times: 1})
		_, err = c.CheckExists().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, []string{"exists /a, background false", "exists: 2 tries, epoch 1, <nil>"}, d.read())

		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply, Times: 1})
		_, err = c.Create().Idempotent().InBackground().ForPath(ctx, "/b", nil).Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"create /b, background true", "create: 2 tries, epoch 1, <nil>"}, d.read())

		_, err = c.Create().WithProtection().ForPath(ctx, "/none/b", nil)
		require.ErrorIs(t, err, ErrNoNode)
		assert.NotContains(t, err.Error(), "%!", "nothing is left to clean up")
		d.read()

		_, err = c.GetChildren().InBackground().ForPath(ctx, "/a").Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"getChildren /a, background true", "getChildren: 1 tries, epoch 1, <nil>"},
			d.read())

		left, cancel := context.WithCancel(ctx)
		cancel()
		_, err = c.GetData().ForPath(left, "/a")
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []string{"getData /a, background false",
			"getData: 0 tries, epoch 0, getData /a: context canceled: the operation was not executed"}, d.read())

		_, err = c.GetData().ForPath(ctx, "no path")
		require.ErrorIs(t, err, ErrInvalidPath)
		assert.Empty(t, d.read(), "nothing was begun")
	})
}

func TestHooksSeeHowABackgroundOperationIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, d := zktest.RunT(t), &diary{}
		c := dial(t, srv, WithHooks(d.operations()))
		connected(t, c)
		srv.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		p := c.GetData().InBackground().ForPath(ctx, "/")
		assert.Len(t, d.read(), 1)
		cancel()
		_, err := p.Wait(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		srv.Resume()
		assert.Len(t, d.read(), 1, "once, also when the answer comes later")
	})
}

func TestHooksSeeWhyAStateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, d := zktest.RunT(t), &diary{}
		c := dial(t, srv, WithHooks(Hooks{State: func(s StateReport) { d.add("%v: %s", s.StateChange, s.Reason) }}))
		s := connected(t, c)
		assert.Equal(t, []string{"Connected in epoch 1: "}, d.read())

		srv.Cut(s.ID())
		time.Sleep(time.Second)
		assert.Equal(t, []string{"Suspended in epoch 1: closed", "Reconnected in epoch 1: "}, d.read())

		srv.BlackHole(s.ID(), zktest.ToClient)
		time.Sleep(7 * time.Second)
		srv.Heal()
		time.Sleep(time.Second)
		assert.Equal(t, []string{"Suspended in epoch 1: silent", "Reconnected in epoch 1: "}, d.read())

		srv.Expire(s.ID())
		time.Sleep(time.Second)
		assert.Equal(t, []string{"Suspended in epoch 1: closed", "Lost in epoch 1: expired",
			"Reconnected in epoch 2: "}, d.read())

		srv.Stop()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"Suspended in epoch 2: closed", "Lost in epoch 2: lapsed"}, d.read())
	})
}

func TestHooksSeeHolds(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		srv, d := zktest.RunT(t), &diary{}
		hooks := Hooks{Hold: func(ctx context.Context, h HoldInfo) (context.Context, func(error)) {
			d.add("%s %s: token %d, epoch %d", h.Recipe, h.Path, h.Token, h.Epoch)
			return context.WithValue(ctx, key{}, "seen"), func(cause error) { d.add("%s: %v", h.Path, cause) }
		}}
		c := dial(t, srv, WithHooks(Hooks{}), WithHooks(hooks))
		s := connected(t, c)
		hold := func(path string) *Hold {
			var stat Stat
			_, err := s.Client().Create().WithMode(Ephemeral).StoringStatIn(&stat).ForPath(t.Context(), path, nil)
			require.NoError(t, err)
			h, err := s.Hold(t.Context(), HoldOptions{Path: path, Recipe: "test", Czxid: stat.Czxid,
				Loss: SessionOnly})
			require.NoError(t, err)
			assert.Equal(t, []string{fmt.Sprintf("test %s: token %d, epoch 1", path, stat.Czxid)}, d.read())
			assert.Equal(t, "seen", h.Context().Value(key{}), "a span would be found there")
			return h
		}
		a := hold("/a")
		a.End(nil)
		a.End(ErrClosed)
		assert.Equal(t, []string{"/a: released"}, d.read(), "once")

		hold("/b")
		require.NoError(t, srv.Delete("/b"))
		time.Sleep(time.Second)
		assert.Equal(t, []string{"/b: node deleted"}, d.read())

		hold("/c")
		srv.Expire(s.ID())
		time.Sleep(time.Second)
		assert.Equal(t, []string{"/c: session lost: session expired by the server"}, d.read())
	})
}

// If a hold is refused at the last moment, and the hooks were called for its beginning, they are called for its end, too.
func TestHooksSeeAHoldThatCameTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, d := zktest.RunT(t), &diary{}
		var s *Session
		c := dial(t, srv, WithHooks(Hooks{Hold: func(context.Context, HoldInfo) (context.Context, func(error)) {
			s.epoch.changeState(func() { s.epoch.endedBy = ErrSessionLost })
			return nil, func(cause error) { d.add("%v", cause) }
		}}))
		s = connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/a", nil)
		require.NoError(t, err)
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/a"})
		require.ErrorIs(t, err, ErrSessionLost)
		assert.Equal(t, []string{"session lost"}, d.read())
	})
}

func TestHooksSeeRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
		var mu sync.Mutex
		took := map[string]time.Duration{}
		c := dial(t, srv, WithRule(RuleHeartbeat), WithHooks(Hooks{RoundTrip: func(r RoundTrip) {
			mu.Lock()
			defer mu.Unlock()
			took[r.Kind] = r.Took
		}}))
		s := connected(t, c)
		srv.Delay(s.ID(), 50*time.Millisecond)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/a", nil)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		mu.Lock()
		assert.Contains(t, took, "ping")
		assert.NotContains(t, took, "heartbeat", "nothing is held")
		mu.Unlock()
		h, err := s.Hold(t.Context(), HoldOptions{Path: "/a"})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, h.Context().Err())
		mu.Lock()
		defer mu.Unlock()
		assert.GreaterOrEqual(t, took["ping"], 50*time.Millisecond)
		assert.GreaterOrEqual(t, took["heartbeat"], 50*time.Millisecond)
	})
}

// A client without hooks pays nothing for them.
func TestWithoutHooksNothingIsAllocated(t *testing.T) {
	var o clientHooks
	hooks := (&Client{}).Hooks()
	ctx, c := t.Context(), &Client{core: &clientCore{}}
	op := &operationRun[int]{operation: &operation[int]{c: c, name: "getData", path: "/a"}, epoch: &sessionEpoch{number: 1}}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = op.reportBegin(ctx)
		op.reportResult(nil)
		_, end := hooks.Acquire(ctx, Acquisition{Recipe: "mutex", Path: "/a"})
		end(nil)
		hooks.Wait(ctx, Queue{Path: "/a"})(nil)
		_, end = o.reportHold(ctx, HoldInfo{Path: "/a"})
		end(nil)
		hooks.NodeData(ctx, Acquisition{})
		o.reportState(StateReport{})
		o.reportRoundTrip(RoundTrip{})
	}))
}

// Several hooks are called in the order of the options, and for the end in the reverse order.
func TestHooksCombine(t *testing.T) {
	type key string
	d := &diary{}
	named := func(name string) Hooks {
		return Hooks{
			Acquire: func(ctx context.Context, _ Acquisition) (context.Context, func(error)) {
				d.add("%s begins inside %v", name, ctx.Value(key("in")))
				return context.WithValue(ctx, key("in"), name), func(error) { d.add("%s ends", name) }
			},
			NodeData: func(context.Context, Acquisition) []byte { return []byte(name) },
			Queue:    func(q Queue) { d.add("%s gets the line of %s", name, q.Path) },
			Wait: func(_ context.Context, q Queue) func(error) {
				d.add("%s waits for %s", name, q.Path)
				return func(error) { d.add("%s has waited", name) }
			},
		}
	}
	silent := Hooks{Acquire: func(context.Context, Acquisition) (context.Context, func(error)) {
		return nil, nil
	}}
	o := clientHooks{silent, named("a"), named("b")}.combineHooks()
	ctx, end := o.Acquire(t.Context(), Acquisition{})
	end(nil)
	assert.Equal(t, []string{"a begins inside <nil>", "b begins inside a", "b ends", "a ends"}, d.lines)
	assert.Equal(t, "b", ctx.Value(key("in")))
	assert.Equal(t, "a", string(o.NodeData(ctx, Acquisition{})))
	d.lines = nil
	o.Queue(Queue{Path: "/l"})
	o.Wait(ctx, Queue{Path: "/w"})(nil)
	assert.Equal(t, []string{"a gets the line of /l", "b gets the line of /l", "a waits for /w", "b waits for /w",
		"b has waited", "a has waited"}, d.lines)
}
