package snippets

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/retry"
)

// The snippets of docs/from-java-curator.md.

func likeBuilder(servers string) (*framework.Client, error) {
	// [builder, here]
	client, err := framework.New(servers, // CuratorFrameworkFactory.builder().connectString(servers)
		framework.WithNamespace("shop"),                                                         // .namespace("shop")
		framework.WithSessionTimeout(30*time.Second),                                            // .sessionTimeoutMs(30_000)
		framework.WithRetry(retry.ExponentialBackoff{Base: 100 * time.Millisecond, Retries: 5}), // .retryPolicy(new ExponentialBackoffRetry(100, 5))
		framework.WithDefaultData(nil),                                                          // .defaultData(new byte[0])
	) // .build(), and start()
	// [end]
	return client, err
}

func likeLatch(ctx context.Context, client *framework.Client, lead func(context.Context) error) error {
	// [latch, here]
	latch, err := leader.NewLatch(client, "/leaders/billing", leader.WithID("host-1"))
	if err != nil {
		return err
	}
	defer latch.Close()
	for {
		term, err := latch.Await(ctx)
		if err != nil {
			return err
		}
		if err := lead(term.Context()); err != nil { // ends with the term, before anybody else leads
			return err
		}
	}
	// [end]
}

func TestLikeCurator(t *testing.T) {
	ctx, server, _ := serve(t)
	client, err := likeBuilder(server.Addr())
	require.NoError(t, err)
	defer client.Close()
	enough := errors.New("enough")
	require.ErrorIs(t, likeLatch(ctx, client, func(ctx context.Context) error {
		require.NoError(t, ctx.Err())
		return enough
	}), enough)
	assert.True(t, server.Exists("/shop/leaders/billing"))
}

func acquireWithin(ctx context.Context, lock *mutex.Mutex) (*mutex.Lock, error) {
	// [acquire within, here]
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // acquire(10, TimeUnit.SECONDS)
	defer cancel()
	held, err := lock.Acquire(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // false
		return nil, err
	}
	// [end]
	return held, err
}

func TestAcquireWithin(t *testing.T) {
	ctx, _, client := serve(t)
	lock, err := acquireWithin(ctx, mutex.New(client, "/locks/orders"))
	require.NoError(t, err)
	assert.True(t, lock.Valid(), "it does not end with the time for the wait")
	require.NoError(t, lock.Release(ctx))
}

// [a node that stays, here]

// stay keeps an ephemeral node at path, through lost sessions and deletions, until ctx ends.
func stay(ctx context.Context, client *framework.Client, path string, data []byte) error {
	for {
		err := client.InSession(ctx, func(ctx context.Context, s *framework.Session) error {
			view, whole := s.Client(), context.WithoutCancel(ctx) // a create that is given up may have made the node, or may not
			_, err := view.Create().CreatingParentContainersIfNeeded().WithMode(framework.Ephemeral).Idempotent().ForPath(whole, path, data)
			if err != nil {
				return err
			}
			hold, err := s.Hold(whole, framework.HoldOptions{Path: path, Loss: framework.SessionOnly}) // ends when the node is gone
			if err != nil {
				return err
			}
			defer hold.End(nil)
			select {
			case <-hold.Context().Done():
				return context.Cause(hold.Context())
			case <-ctx.Done():
				return errors.Join(context.Cause(ctx), view.Delete().Quietly().Guaranteed().ForPath(whole, path))
			}
		})
		if !errors.Is(err, framework.ErrSessionLost) && !errors.Is(err, framework.ErrNodeDeleted) || ctx.Err() != nil {
			return err
		}
	}
}

// [end]

func TestStay(t *testing.T) {
	ctx, server, client := serve(t)
	watch, err := client.Watches().Add().ForPath(ctx, "/members")
	require.NoError(t, err)
	defer watch.Stop()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- stay(ctx, client, "/members/a", []byte("10.0.0.7")) }()

	appears := func() {
		for {
			stat, watch, err := client.CheckExists().WithWatch().ForPath(ctx, "/members/a")
			require.NoError(t, err)
			session, err := client.Session(ctx)
			require.NoError(t, err)
			if stat != nil && stat.EphemeralOwner == session.ID() {
				watch.Stop()
				return
			}
			<-watch.C
		}
	}
	appears()
	require.NoError(t, server.Delete("/members/a")) // an administrator
	appears()
	session, err := client.Session(ctx)
	require.NoError(t, err)
	server.Expire(session.ID())
	<-session.Done()
	appears()
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
	assert.False(t, server.Exists("/members/a"))
}

// [a counter, here]

// add adds to the number at path, which Curator's DistributedAtomicLong may use as well, and returns what it is then.
func add(ctx context.Context, client *framework.Client, path string, delta int64) (int64, error) {
	for {
		var stat framework.Stat
		data, err := client.GetData().StoringStatIn(&stat).ForPath(ctx, path)
		var n int64
		switch {
		case errors.Is(err, framework.ErrNoNode):
			_, err = client.Create().CreatingParentContainersIfNeeded().ForPath(ctx, path, binary.BigEndian.AppendUint64(nil, uint64(delta)))
			if errors.Is(err, framework.ErrNodeExists) {
				continue
			}
			return delta, err
		case err != nil:
			return 0, err
		case len(data) >= 8:
			n = int64(binary.BigEndian.Uint64(data))
		case len(data) > 0:
			return 0, errors.New("not a number: " + path)
		}
		n += delta
		_, err = client.SetData().WithVersion(stat.Version).ForPath(ctx, path, binary.BigEndian.AppendUint64(nil, uint64(n)))
		if !errors.Is(err, framework.ErrBadVersion) {
			return n, err // after framework.ErrOutcomeUnknown it may have been added, or not
		}
	}
}

// [end]

func TestAdd(t *testing.T) {
	ctx, server, client := serve(t)
	done := make(chan error)
	const workers, times = 4, 10
	for range workers {
		go func() {
			for range times {
				if _, err := add(ctx, client, "/counters/hits", 3); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		require.NoError(t, <-done)
	}
	n, err := add(ctx, client, "/counters/hits", -1)
	require.NoError(t, err)
	assert.EqualValues(t, workers*times*3-1, n)
	data, _, err := server.Get("/counters/hits")
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 119}, data, "eight bytes, big-endian, as Curator's")

	require.NoError(t, server.Create("/counters/text", []byte("four")))
	_, err = add(ctx, client, "/counters/text", 1)
	assert.ErrorContains(t, err, "not a number")
}
