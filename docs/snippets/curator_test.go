package snippets

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// The snippets of docs/from-java-curator.md.

func likeBuilder(servers string) (*framework.Client, error) {
	// [builder, here]
	policy := retry.ExponentialBackoff{Base: 100 * time.Millisecond, Retries: 5}
	client, err := framework.New(servers, // CuratorFrameworkFactory.builder().connectString(servers)
		framework.WithNamespace("shop"),              // .namespace("shop")
		framework.WithSessionTimeout(30*time.Second), // .sessionTimeoutMs(30_000)
		framework.WithRetry(policy),                  // .retryPolicy(new ExponentialBackoffRetry(100, 5))
		framework.WithDefaultData(nil),               // .defaultData(new byte[0])
	) // .build(), and start()
	// [end]
	return client, err
}

func likeLatch(ctx context.Context, client *framework.Client, lead func(context.Context) error) error {
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
		work, cancel := context.WithCancel(term.Context()) // ends with the term, before the next leader's,
		stop := context.AfterFunc(ctx, cancel)             // and with ctx, which a term outlives
		err = lead(work)
		if err == nil {
			<-work.Done() // as long as the term lasts, Await would return it again
		}
		stop()
		cancel()
		if err != nil && term.Valid() {
			return err // of lead itself, or of ctx
		}
	}
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

// The loop goes on when a term is lost, does not spin when there is nothing to do, and ends with its context.
func TestLatchThroughALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Config{EnsembleConfig: memberConfig})
		client := stays(t, server)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		terms, idle, node := 0, false, ""
		done := make(chan error, 1)
		go func() {
			done <- likeLatch(ctx, client, func(ctx context.Context) error {
				terms++
				if at := leader.TermOf(ctx).Path(); terms == 1 {
					node = at
				} else {
					assert.Equal(t, node, at, "the latch has kept its place")
				}
				if idle {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		for want := 1; want < 5; want++ {
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(t, done)
			require.Equal(t, want, terms)
			idle = want == 2 // the third call returns at once
			server.Cut(0)
		}
		time.Sleep(time.Minute)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		assert.Equal(t, 5, terms)
		time.Sleep(time.Minute)
		assert.False(t, server.Exists(node))
	})
}

func acquireWithin(ctx context.Context, lock *mutex.Mutex) (*mutex.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // acquire(10, TimeUnit.SECONDS)
	defer cancel()
	held, err := lock.Acquire(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // false
		return nil, err
	}
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

// stay keeps an ephemeral node at path until ctx ends, and then deletes it. It calls there each time that
// the node has been made.
func stay(ctx context.Context, client *framework.Client, path string, data []byte, there func()) error {
	keeper, err := node.NewKeeper(client, path, data) // new PersistentNode(…).start()
	if err != nil {
		return err
	}
	made, why := int64(0), error(nil)
	for status, err := range keeper.Follow(ctx) { // getListenable().addListener(…)
		if why = err; status.State == node.There && status.Czxid != made {
			made = status.Czxid
			there()
		}
	}
	return errors.Join(why, keeper.Close(context.WithoutCancel(ctx)))
}

// [end]

// staying runs stay. It returns a channel with a value for each time that the node was made, and a function
// that ends stay.
func staying(t *testing.T, client *framework.Client) (there chan struct{}, leave func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	there = make(chan struct{}, 100)
	done := make(chan error, 1)
	tell := func() { there <- struct{}{} }
	go func() { done <- stay(ctx, client, "/members/a", []byte("10.0.0.7"), tell) }()
	return there, func() error { cancel(); return <-done }
}

// stays begins a client of a member of an ensemble. With its session timeout a hold would write heartbeats.
func stays(t *testing.T, server *zktest.Server) *framework.Client {
	client, err := framework.New(server.Addr(),
		framework.WithDialer(server.Dial), framework.WithSessionTimeout(15*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

const memberConfig = "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
	"server.2=b:2888:3888:participant;0.0.0.0:2181\n" +
	"version=100000000"

func TestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Config{EnsembleConfig: memberConfig})
		client := stays(t, server)
		there, leave := staying(t, client)
		own := func() {
			t.Helper()
			<-there
			session, err := client.Session(t.Context())
			require.NoError(t, err)
			require.Equal(t, session.ID(), server.Tree()["/members/a"].Stat.EphemeralOwner)
		}
		own()
		server.ResetCounts()
		time.Sleep(time.Hour)
		asked := slices.Collect(maps.Keys(server.Counts()))
		require.ElementsMatch(t, []string{"ping", "exists"}, asked, "nothing is written to keep the node")
		require.NoError(t, server.Delete("/members/a")) // an administrator
		own()
		require.NoError(t, server.Set("/members/a", []byte("other")))
		server.Cut(0)
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Empty(t, there, "nothing new in that")
		server.Expire(session.ID())
		own()
		server.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		require.NoError(t, server.Delete("/members/a"))
		own()
		assert.ErrorIs(t, leave(), context.Canceled)
		assert.False(t, server.Exists("/members/a"))
		assert.Empty(t, server.Watches())
	})
}

// A program that was killed and started again finds its former node, of a session that is not over yet.
func TestStayAfterAPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Config{EnsembleConfig: memberConfig})
		first, second := stays(t, server), stays(t, server)
		create := first.Create().CreatingParentContainersIfNeeded().WithMode(framework.Ephemeral)
		_, err := create.ForPath(t.Context(), "/members/a", []byte("10.0.0.7"))
		require.NoError(t, err)
		session, err := first.Session(t.Context())
		require.NoError(t, err)
		there, leave := staying(t, second)
		time.Sleep(10 * time.Second)
		require.Empty(t, there, "it may be alive")
		server.Expire(session.ID())
		<-there

		_, leaveOther := staying(t, first)
		time.Sleep(10 * time.Second)
		assert.ErrorIs(t, leaveOther(), context.Canceled)
		assert.True(t, server.Exists("/members/a"), "a contender that leaves takes nobody else's away")
		assert.ErrorIs(t, leave(), context.Canceled)
		assert.False(t, server.Exists("/members/a"))

		require.NoError(t, server.Create("/members/a", nil))
		_, leave = staying(t, second)
		time.Sleep(time.Second)
		assert.ErrorIs(t, leave(), context.Canceled)
		assert.True(t, server.Exists("/members/a"), "it belongs to no session")
	})
}

// hit counts one more, together with all other processes, in Go and Java, and returns how many there are.
func hit(ctx context.Context, hits *counter.Long) (int64, error) {
	total, err := hits.Add(ctx, 1) // .increment().postValue()
	if errors.Is(err, framework.ErrOutcomeUnknown) {
		return 0, err // a reply was lost, and the session or ctx ended with it: perhaps it was counted
	}
	return total, err // with any other error it was not
}

func TestHit(t *testing.T) {
	ctx, server, client := serve(t)
	hits := counter.NewLong(client, "/counters/hits")
	for want := range int64(3) {
		n, err := hit(ctx, hits)
		require.NoError(t, err)
		assert.Equal(t, want+1, n)
	}
	data, _, err := server.Get("/counters/hits")
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 3}, data, "eight bytes, big-endian, as Curator's")
}
