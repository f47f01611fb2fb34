package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// The operations that one goroutine queues are executed, and their callbacks called, in that order, with every kind of
// operation in between.
func TestBackgroundOrder(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/q", "")
		var mu sync.Mutex
		var got []string
		note := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, s)
		}
		var want []string
		for i := range 50 {
			path := fmt.Sprintf("/q/%d", i)
			c.Create().InBackground().ForPath(ctx, path, nil).Then(
				func(r CreateResult, err error) { note(fmt.Sprint("create ", r.Path, err)) },
			)
			c.SetData().WithVersion(0).InBackground().ForPath(ctx, path, []byte("x")).Then(
				func(s Stat, err error) { note(fmt.Sprint("set ", s.Version, err)) },
			)
			c.GetChildren().InBackground().ForPath(ctx, "/q").Then(
				func(r ChildrenResult, err error) { note(fmt.Sprint("children ", len(r.Names), err)) },
			)
			c.TransactionInBackground(ctx, c.TransactionOp().Check().WithVersion(1).ForPath(path)).
				Then(func(_ []TransactionResult, err error) { note(fmt.Sprint("multi ", err)) })
			c.Sync().InBackground().ForPath(ctx, "/q").Then(
				func(_ struct{}, err error) { note(fmt.Sprint("sync ", err)) },
			)
			c.Delete().InBackground().ForPath(ctx, path).Then(
				func(_ struct{}, err error) { note(fmt.Sprint("delete ", err)) },
			)
			c.CheckExists().InBackground().ForPath(ctx, path).Then(
				func(r ExistsResult, err error) { note(fmt.Sprint("exists ", r.Stat, err)) },
			)
			want = append(want, fmt.Sprint("create ", path, nil), fmt.Sprint("set ", 1, nil),
				fmt.Sprint("children ", 1, nil), "multi <nil>",
				"sync <nil>", "delete <nil>", fmt.Sprint("exists ", (*Stat)(nil), nil))
		}
		last := c.GetData().InBackground().ForPath(ctx, "/q")
		called := make(chan struct{})
		last.Then(func(DataResult, error) { close(called) })
		<-called
		assert.Equal(t, want, got)
	})
}

func TestBackgroundIsQueuedWhileDisconnected(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Stop()
		synctest.Wait()
		var all []*Pending[CreateResult]
		for range 20 {
			all = append(
				all, c.Create().WithMode(PersistentSequential).InBackground().ForPath(t.Context(), "/n-", nil),
			)
		}
		time.Sleep(3 * time.Second)
		require.NoError(t, srv.Start())
		var paths []string
		for _, p := range all {
			r, err := p.Wait(t.Context())
			require.NoError(t, err)
			paths = append(paths, r.Path)
		}
		assert.True(t, slices.IsSorted(paths), "%v", paths)
	})
}

func TestBackgroundErrors(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		_, err := c.Create().InBackground().ForPath(ctx, "/a", nil).Wait(ctx)
		assert.ErrorIs(t, err, ErrConnectionLoss)
		var op *OpError
		require.ErrorAs(t, err, &op)
		assert.Equal(t, "create", op.Op)

		// The operation's context ends it, the waiter's ends the waiting.
		connected(t, c)
		hold := srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/a", Action: zktest.Hold})
		opCtx, cancel := context.WithCancel(ctx)
		p := c.GetData().InBackground().ForPath(opCtx, "/a")
		<-hold.Struck()
		waitCtx, cancelWait := context.WithTimeout(ctx, time.Second)
		defer cancelWait()
		_, err = p.Wait(waitCtx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		select {
		case <-p.Done():
			assert.Fail(t, "it was the waiting that ended")
		default:
		}
		cancel()
		<-p.Done()
		_, err = p.Wait(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		hold.Release()

		// Never sent.
		srv.Stop()
		synctest.Wait()
		opCtx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = c.SetData().InBackground().ForPath(opCtx, "/a", nil).Wait(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		_, err = c.SetData().InBackground().ForPath(ctx, "/a", nil).Wait(ctx)
		assert.ErrorIs(t, err, ErrNotConnected)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
	}, WithConnectionTimeout(2*time.Second), WithSessionTimeout(40*time.Second))
}

// Every callback is called, exactly once, whatever happens to the client.
func TestCallbacksOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Pause()
		var mu sync.Mutex
		calls := map[int]int{}
		for i := range 50 {
			c.GetData().InBackground().ForPath(t.Context(), "/").Then(func(_ DataResult, err error) {
				assert.ErrorIs(t, err, ErrClosed)
				mu.Lock()
				defer mu.Unlock()
				calls[i]++
			})
		}
		_ = c.Close()
		mu.Lock()
		assert.Len(t, calls, 50, "before Close returns")
		mu.Unlock()
		done := make(chan error, 1)
		var held sync.Mutex
		held.Lock() // Then does not call back on the caller's goroutine
		c.GetData().InBackground().ForPath(t.Context(), "/").Then(func(_ DataResult, err error) {
			held.Lock()
			defer held.Unlock()
			done <- err
		})
		held.Unlock()
		assert.ErrorIs(t, <-done, ErrClosed)
		for i, n := range calls {
			assert.Equal(t, 1, n, i)
		}
		_, err := c.GetData().ForPath(t.Context(), "/")
		assert.ErrorIs(t, err, ErrClosed)
		srv.Resume()
	}, WithClosingTimeout(time.Second))
}

// IfFailed calls back for failures only, in the order of the other callbacks, also when the result is there already.
func TestCallbacksOfFailures(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		var heard []string
		hear := func(what string) func(error) {
			return func(err error) { heard = append(heard, fmt.Sprint(what, " ", errors.Is(err, ErrNoNode))) }
		}
		fine, missing := c.GetData().InBackground().ForPath(ctx, "/"), c.GetData().InBackground().ForPath(ctx, "/none")
		for range 2 { // before they have ended, and after
			fine.IfFailed(hear("fine"))
			fine.IfFailed(nil)
			missing.IfFailed(hear("missing"))
			missing.Then(func(_ DataResult, err error) { hear("then")(err) })
			missing.IfFailed(hear("missing again"))
			synctest.Wait()
		}
		of := []string{"missing true", "then true", "missing again true"}
		assert.Equal(t, append(of, of...), heard)
	})
}

// A callback may use the client: queue more operations, and wait.
func TestCallbackUsesTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		done := make(chan error, 1)
		c.Create().InBackground().ForPath(t.Context(), "/a", nil).Then(func(r CreateResult, err error) {
			if err == nil {
				_, err = c.SetData().ForPath(context.Background(), r.Path, []byte("x"))
			}
			c.Delete().InBackground().ForPath(context.Background(), r.Path).Then(func(_ struct{}, err2 error) {
				if err == nil {
					err = err2
				}
				done <- err
			})
		})
		require.NoError(t, <-done)
		assert.Len(t, srv.Tree(), 1)
	})
}
