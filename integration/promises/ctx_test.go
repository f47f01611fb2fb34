package promises

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// overdue is how late a call may return after the end of its context.
const overdue = 100 * time.Millisecond

// call is a blocking call.
type call struct {
	name string
	run  func(ctx context.Context) error
}

// P4: no call returns later than 100 ms after its context has ended, while the server is paused: right after the pause,
// when the client has closed the connection, and when the session is lost.
func TestNoCallOutlivesItsContext(t *testing.T) { // alone: 100 ms are not much on a busy machine
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, MaxSessionTimeout: timeout})
	t.Cleanup(node.Resume) // before the clients are closed
	ctx := kit.Context(t)
	client, session := kit.Connected(t, node.ConnectString())
	states := kit.Watch(t, client)
	states.Next(framework.Connected, 1)
	for _, path := range []string{"/n", "/n/child", "/d"} {
		_, err := client.Create().ForPath(ctx, path, nil)
		require.NoError(t, err)
	}
	_, err := client.Create().WithMode(framework.Ephemeral).ForPath(ctx, "/e", nil)
	require.NoError(t, err)
	busy := mutex.New(client, "/busy")
	_, err = busy.Acquire(ctx)
	require.NoError(t, err)
	const phases = 3
	var locks []*mutex.Lock
	var closing []*framework.Client
	for i := range phases {
		lock, err := mutex.New(client, fmt.Sprintf("/mine-%d", i)).Acquire(ctx)
		require.NoError(t, err)
		locks = append(locks, lock)
		other, _ := kit.Connected(t, node.ConnectString())
		closing = append(closing, other)
	}
	var queued sync.WaitGroup
	queued.Add(1)
	waiting, leave := context.WithCancel(ctx)
	var left, began time.Time
	var waiter sync.WaitGroup
	waiter.Go(func() {
		_, err := mutex.New(client, "/busy", mutex.OnWait(func(mutex.Position) { queued.Done() })).Acquire(waiting)
		left = time.Now()
		assert.ErrorIs(t, err, context.Canceled)
	})
	queued.Wait()

	node.Pause()
	var mu sync.Mutex
	var worst time.Duration
	var calls int
	phase := func(name string, number int) {
		var all sync.WaitGroup
		list := calling(client, session)
		list = append(list,
			call{"release", locks[number].Release},
			call{"close", closing[number].CloseContext},
			call{"wait for a connection", kit.Dial(t, node.ConnectString()).WaitConnected},
		)
		for _, c := range list {
			all.Go(func() {
				limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond+rand.N(600*time.Millisecond))
				defer cancel()
				ended := make(chan time.Time, 1) // as a plain waiter sees it: a busy machine delays both
				go func() { <-limited.Done(); ended <- time.Now() }()
				err := c.run(limited)
				late := time.Duration(0)
				if returned := time.Now(); limited.Err() != nil {
					late = returned.Sub(<-ended)
				}
				assert.LessOrEqual(t, late, overdue, "%s: %s", name, c.name)
				if err == nil || limited.Err() == nil {
					// No wait was necessary: the session is lost, the result is known, …
					assert.True(t, err == nil || errors.Is(err, framework.ErrSessionLost) ||
						errors.Is(err, framework.ErrUnacknowledged) ||
						errors.Is(err, framework.ErrNotConnected) || errors.Is(err, framework.ErrSuspended), "%s: %s: %v", name,
						c.name, err)
					return
				}
				assert.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, framework.ErrUnacknowledged) ||
					errors.Is(err, framework.ErrSessionLost),
					"%s: %s: %v", name, c.name, err)
				mu.Lock()
				defer mu.Unlock()
				calls++
				worst = max(worst, late)
			})
		}
		all.Wait()
	}
	phase("in flight", 0)
	began = time.Now()
	leave()
	waiter.Wait()
	assert.Less(t, left.Sub(began), overdue)
	states.Next(framework.Suspended, 1)
	phase("suspended", 1)
	states.Next(framework.Lost, 1)
	phase("lost", 2)
	kit.Figure(t, "P4: %d calls ended by their context while the server stood still; the latest %v after it",
		calls, worst)
	assert.Greater(t, calls, 2*len(calling(client, session)))
}

// only returns the error of an operation with a result.
func only[T any](_ T, err error) error { return err }

// calling returns every operation, once more for each of its options.
func calling(c *framework.Client, s *framework.Session) []call {
	data := []byte("data")
	m := mutex.New(c, "/lock")
	held := mutex.New(c, "/busy")
	return []call{
		{"create", func(ctx context.Context) error { return only(c.Create().ForPath(ctx, "/c", data)) }},
		{"create with parents", func(ctx context.Context) error {
			return only(c.Create().CreatingParentsIfNeeded().ForPath(ctx, "/p/q/r", data))
		}},
		{"create with containers", func(ctx context.Context) error {
			return only(c.Create().CreatingParentContainersIfNeeded().ForPath(ctx, "/p/q/r", data))
		}},
		{"create protected", func(ctx context.Context) error {
			return only(c.Create().WithProtection().WithMode(framework.EphemeralSequential).ForPath(ctx, "/s-", data))
		}},
		{"create sequential", func(ctx context.Context) error {
			return only(c.Create().WithMode(framework.PersistentSequential).ForPath(ctx, "/s-", data))
		}},
		{"create container", func(ctx context.Context) error {
			return only(c.Create().WithMode(framework.Container).ForPath(ctx, "/co", data))
		}},
		{"create or set", func(ctx context.Context) error {
			return only(c.Create().OrSetData().ForPath(ctx, "/n", data))
		}},
		{"create containers", func(ctx context.Context) error { return c.CreateContainers(ctx, "/x/y") }},
		{"create in a namespace", func(ctx context.Context) error {
			return only(c.UsingNamespace("ns").Create().ForPath(ctx, "/c", data))
		}},
		{"delete", func(ctx context.Context) error { return c.Delete().ForPath(ctx, "/d") }},
		{"delete quietly", func(ctx context.Context) error { return c.Delete().Quietly().ForPath(ctx, "/d") }},
		{"delete guaranteed", func(ctx context.Context) error {
			return c.Delete().Guaranteed().ForPath(ctx, "/d")
		}},
		{"delete with children", func(ctx context.Context) error {
			return c.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/n")
		}},
		{"exists", func(ctx context.Context) error { return only(c.CheckExists().ForPath(ctx, "/n")) }},
		{"exists with watch", func(ctx context.Context) error {
			_, _, err := c.CheckExists().WithWatch().ForPath(ctx, "/n")
			return err
		}},
		{"getData", func(ctx context.Context) error { return only(c.GetData().ForPath(ctx, "/n")) }},
		{"getData with watch", func(ctx context.Context) error {
			_, _, err := c.GetData().WithWatch().ForPath(ctx, "/n")
			return err
		}},
		{"getData of the session", func(ctx context.Context) error {
			return only(s.Client().GetData().ForPath(ctx, "/n"))
		}},
		{"setData", func(ctx context.Context) error { return only(c.SetData().ForPath(ctx, "/n", data)) }},
		{"getChildren", func(ctx context.Context) error { return only(c.GetChildren().ForPath(ctx, "/n")) }},
		{"getChildren with watch", func(ctx context.Context) error {
			_, _, err := c.GetChildren().WithWatch().ForPath(ctx, "/n")
			return err
		}},
		{"getACL", func(ctx context.Context) error { return only(c.GetACL().ForPath(ctx, "/n")) }},
		{"setACL", func(ctx context.Context) error {
			return only(c.SetACL().WithACL(framework.OpenACL()...).ForPath(ctx, "/n"))
		}},
		{"sync", func(ctx context.Context) error { return c.Sync().ForPath(ctx, "/n") }},
		{"transaction", func(ctx context.Context) error {
			return only(c.Transaction(ctx, c.TransactionOp().SetData().ForPath("/n", data),
				c.TransactionOp().Check().ForPath("/d")))
		}},
		{"several reads", func(ctx context.Context) error {
			return only(c.MultiRead().ForReads(ctx, framework.ReadData("/n"), framework.ReadChildren("/n")))
		}},
		{"addWatch", func(ctx context.Context) error { return only(c.Watches().Add().ForPath(ctx, "/n")) }},
		{"in the background", func(ctx context.Context) error {
			return only(c.SetData().InBackground().ForPath(ctx, "/n", data).Wait(context.Background()))
		}},
		{"wait for the background", func(ctx context.Context) error {
			return only(c.GetData().InBackground().ForPath(context.Background(), "/n").Wait(ctx))
		}},
		{"delete in the background", func(ctx context.Context) error {
			return only(c.Delete().Guaranteed().InBackground().ForPath(ctx, "/d").Wait(context.Background()))
		}},
		{"create in the background", func(ctx context.Context) error {
			return only(c.Create().WithProtection().InBackground().ForPath(ctx, "/b", nil).Wait(context.Background()))
		}},
		{"hold", func(ctx context.Context) error {
			return only(s.Hold(ctx, framework.HoldOptions{Path: "/e", OwnWatchAfter: -1}))
		}},
		{"session", func(ctx context.Context) error { return only(c.Session(ctx)) }},
		{"wait connected", c.WaitConnected},
		{"acquire", func(ctx context.Context) error { return only(m.Acquire(ctx)) }},
		{"acquire what is held", func(ctx context.Context) error { return only(held.Acquire(ctx)) }},
		{"try to acquire", func(ctx context.Context) error { return only(m.TryAcquire(ctx)) }},
		{"try to acquire stale", func(ctx context.Context) error {
			return only(mutex.New(c, "/lock", mutex.WithStaleTry()).TryAcquire(ctx))
		}},
		{"do", func(ctx context.Context) error { return m.Do(ctx, func(context.Context) error { return nil }) }},
		{"participants", func(ctx context.Context) error { return only(held.Participants(ctx)) }},
		{"holder", func(ctx context.Context) error {
			_, _, err := held.Holder(ctx)
			return err
		}},
	}
}
