package security

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/retry"
)

// Two identities, and Java as a third, share a lock whose nodes other clients cannot see.
func TestLockBetweenIdentities(t *testing.T) {
	t.Parallel()
	node := start(t, zkserver.Options{}.WithSASL(t, users))
	identities := []framework.Identity{framework.SASLIdentity("alice"), framework.SASLIdentity("bob"),
		framework.SASLIdentity("java")}
	acl := framework.WithDefaultACL(framework.ContenderACL(identities...)...)
	a, _ := kit.Connected(t, node.Addr(), sasl("alice"), acl, framework.WithSessionTimeout(calm))
	b, _ := kit.Connected(t, node.Addr(), sasl("bob"), acl, framework.WithSessionTimeout(calm))
	ctx := kit.Context(t)
	const path = "/locks/shared"

	held, err := mutex.New(a, path).Acquire(ctx)
	require.NoError(t, err)
	granted := kit.Call(t, ctx, mutex.New(b, path).Acquire)
	kit.Soon(t, "the other waits", func() bool {
		names, err := a.GetChildren().ForPath(ctx, path)
		return err == nil && len(names) == 2
	})
	// Operations that one identity may not do on the other's node.
	_, err = b.SetData().ForPath(ctx, held.Path(), []byte("__REVOKE__"))
	assert.ErrorIs(t, err, framework.ErrNoAuth)
	_, err = b.SetACL().WithACL(framework.OpenACL()...).ForPath(ctx, held.Path())
	assert.ErrorIs(t, err, framework.ErrNoAuth)
	_, err = b.GetData().ForPath(ctx, held.Path())
	assert.NoError(t, err)
	// A client without credentials may do nothing.
	c, _ := kit.Connected(t, node.Addr(), framework.WithRetry(retry.RetryNTimes{}))
	_, err = c.GetChildren().ForPath(ctx, path)
	assert.ErrorIs(t, err, framework.ErrNoAuth)
	_, err = mutex.New(c, path).Acquire(ctx)
	assert.ErrorIs(t, err, framework.ErrNoAuth)
	assert.ErrorIs(t, c.Delete().ForPath(ctx, held.Path()), framework.ErrNoAuth)

	require.NoError(t, held.Release(ctx))
	second := kit.Receive(t, "the grant", granted)
	assert.Greater(t, second.FencingToken(), held.FencingToken())

	// Java, with its own login, joins the line behind it and is granted.
	peer := javapeer.Start(t, zkserver.JAASClient(t, "java", users["java"]))
	require.NoError(t, peer.Connect(ctx, node.ConnectString(), calm))
	theirs, err := peer.Mutex(ctx, "m", path)
	require.NoError(t, err)
	wait := theirs.GoAcquire(javapeer.Forever)
	kit.Soon(t, "Java waits", func() bool {
		names, err := a.GetChildren().ForPath(ctx, path)
		return err == nil && len(names) == 2
	})
	require.NoError(t, second.Release(ctx))
	_, err = wait(ctx)
	require.NoError(t, err)
	granted = kit.Call(t, ctx, mutex.New(a, path).Acquire)
	kit.Soon(t, "we wait for Java", func() bool {
		names, err := b.GetChildren().ForPath(ctx, path)
		return err == nil && len(names) == 2
	})
	require.NoError(t, theirs.Release(ctx))
	third := kit.Receive(t, "the grant after Java", granted)

	// A client that may leave the line may also delete the nodes of others. The hold notices.
	require.NoError(t, b.Delete().ForPath(ctx, third.Path()))
	kit.Closed(t, "the hold", third.Context().Done())
	assert.ErrorIs(t, context.Cause(third.Context()), framework.ErrNodeDeleted)
	assert.False(t, third.Valid())
}

// Java and Go share a lock by digest logins, with either ACL preset of this library. Each knows only the other's hash.
func TestLockWithJavaByDigest(t *testing.T) {
	t.Parallel()
	node := start(t, zkserver.Options{})
	ours, theirs := framework.DigestIdentity("orders", "go's"), framework.DigestIdentity("billing", "java's")
	for name, preset := range map[string]framework.Option{
		"ContenderACL":   framework.WithDefaultACL(framework.ContenderACL(theirs)...),
		"WithContenders": framework.WithContenders(ours, theirs),
	} {
		for _, javaFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, Java first: %t", name, javaFirst), func(t *testing.T) {
				ctx := kit.Context(t)
				path := fmt.Sprintf("/%s-%t/locks/shared", name, javaFirst)
				client, _ := kit.Connected(t, node.Addr(), framework.WithAuth("digest", []byte("orders:go's")),
					framework.WithSessionTimeout(calm), preset)
				peer := javapeer.Start(t)
				require.NoError(t, peer.ConnectAs(ctx, node.ConnectString(), calm, "billing:java's", ours.ID))
				lock, err := peer.Mutex(ctx, "m", path)
				require.NoError(t, err)
				m := mutex.New(client, path)
				line := func(n int) {
					kit.Soon(t, "both are in line", func() bool {
						names, err := client.GetChildren().ForPath(ctx, path)
						return assert.NoError(t, err) && len(names) == n
					})
				}
				for range 2 {
					if javaFirst {
						_, err := lock.Acquire(ctx, javapeer.Forever)
						require.NoError(t, err)
						granted := kit.Call(t, ctx, m.Acquire)
						line(2)
						require.NoError(t, lock.Release(ctx))
						require.NoError(t, kit.Receive(t, "our turn", granted).Release(ctx))
					} else {
						held, err := m.Acquire(ctx)
						require.NoError(t, err)
						wait := lock.GoAcquire(javapeer.Forever)
						line(2)
						require.NoError(t, held.Release(ctx))
						_, err = wait(ctx)
						require.NoError(t, err)
						require.NoError(t, lock.Release(ctx))
					}
				}
				stranger, _ := kit.Connected(t, node.Addr(), framework.WithRetry(retry.RetryNTimes{}))
				_, err = mutex.New(stranger, path).Acquire(ctx)
				assert.ErrorIs(t, err, framework.ErrNoAuth)
			})
		}
	}
}

// Two logins that also share a digest: neither may change the common nodes, and each node only the login that has
// created it.
func TestContendersWhoShareAnIdentity(t *testing.T) {
	t.Parallel()
	node := start(t, zkserver.Options{}.WithSASL(t, users))
	shared, none := framework.WithAuth("digest", []byte("team:shared")), framework.WithRetry(retry.RetryNTimes{})
	client := func(self, other string) *framework.Client {
		c, _ := kit.Connected(t, node.Addr(), sasl(self), shared, none, framework.WithSessionTimeout(calm),
			framework.WithContenders(framework.SASLIdentity(self), framework.SASLIdentity(other)))
		return c
	}
	a, b := client("alice", "bob"), client("bob", "alice")
	team, _ := kit.Connected(t, node.Addr(), shared, none)
	ctx := kit.Context(t)
	const path = "/shop/locks/shared"

	held, err := mutex.New(a, path).Acquire(ctx)
	require.NoError(t, err)
	granted := make(chan error, 1)
	go func() { granted <- mutex.New(b, path).Do(ctx, func(context.Context) error { return nil }) }()
	kit.Soon(t, "the other waits", func() bool {
		names, err := a.GetChildren().ForPath(ctx, path)
		return err == nil && len(names) == 2
	})
	for name, c := range map[string]*framework.Client{"alice": a, "bob": b, "team": team} {
		for _, at := range []string{"/shop", "/shop/locks", path, held.Path()} {
			if name == "alice" && at == held.Path() {
				continue // alice's own node
			}
			_, err := c.SetACL().WithACL(framework.OpenACL()...).ForPath(ctx, at)
			assert.ErrorIs(t, err, framework.ErrNoAuth, "%s: %s", name, at)
			_, err = c.SetData().ForPath(ctx, at, nil)
			assert.ErrorIs(t, err, framework.ErrNoAuth, "%s: %s", name, at)
		}
		assert.ErrorIs(t, c.Delete().ForPath(ctx, path), framework.ErrNoAuth, name)
	}
	require.NoError(t, held.Release(ctx))
	require.NoError(t, kit.Receive(t, "the grant", granted))
}

// The password of a session follows from its id. Where logins are required these two do not suffice to end a session,
// but a client that has both can still close the connection of the session's owner: against that only a closed network,
// or certificates, help.
func TestAStrangerWithTheSessionsID(t *testing.T) {
	t.Parallel()
	node := start(t, zkserver.Options{Config: []string{"sessionRequireClientSASLAuth=true"}}.WithSASL(t, users))
	c, s := kit.Connected(t, node.Addr(), sasl("alice"), framework.WithSessionTimeout(calm))
	states := kit.Watch(t, c)
	states.Next(framework.Connected, 1)
	path, err := c.Create().WithMode(framework.Ephemeral).ForPath(kit.Context(t), "/e", nil)
	require.NoError(t, err)
	assert.Equal(t, jute.CodeSessionClosedRequireSASL, endSession(t, node.Addr(), s.ID()))
	states.Next(framework.Suspended, 1)
	states.Next(framework.Reconnected, 1)
	time.Sleep(200 * time.Millisecond)
	stat, err := c.CheckExists().ForPath(kit.Context(t), path)
	require.NoError(t, err)
	require.NotNil(t, stat, "the session has outlived it")
	assert.Equal(t, s.ID(), stat.EphemeralOwner)
	assert.NoError(t, s.Context().Err())
}

// endSession attaches to a session with nothing but its id, requests its end, and returns the server's reply to that.
func endSession(t *testing.T, addr string, id int64) int32 {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(kit.Patience)))
	hello := jute.Frame(&jute.ConnectRequest{Timeout: 15000, SessionID: id, Password: kit.SessionPassword(id),
		HasReadOnly: true})
	_, err = conn.Write(append(hello, jute.Frame(&jute.RequestHeader{Xid: 1, Op: jute.OpCloseSession})...))
	require.NoError(t, err)
	frame := func(to jute.Record) {
		var length [4]byte
		_, err := io.ReadFull(conn, length[:])
		require.NoError(t, err)
		b := make([]byte, binary.BigEndian.Uint32(length[:]))
		_, err = io.ReadFull(conn, b)
		require.NoError(t, err)
		require.NoError(t, jute.Unmarshal(b, to))
	}
	var answer jute.ConnectResponse
	frame(&answer)
	require.Equal(t, id, answer.SessionID, "the id is enough to attach to it")
	var reply jute.ReplyHeader
	frame(&reply)
	return reply.Err
}
