package framework

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// bothWays runs an operation in the foreground and in the background.
func bothWays(t *testing.T, f func(t *testing.T, background bool)) {
	t.Run("foreground", func(t *testing.T) { f(t, false) })
	t.Run("background", func(t *testing.T) { f(t, true) })
}

func createThe(ctx context.Context, b CreateBuilder, background bool, path, data string) (string, error) {
	if background {
		r, err := b.InBackground().ForPath(ctx, path, []byte(data)).Wait(ctx)
		return r.Path, err
	}
	return b.ForPath(ctx, path, []byte(data))
}

func setThe(ctx context.Context, b SetDataBuilder, background bool, path, data string) (Stat, error) {
	if background {
		return b.InBackground().ForPath(ctx, path, []byte(data)).Wait(ctx)
	}
	return b.ForPath(ctx, path, []byte(data))
}

// The state before the call is no success of the operation: if several clients create, set or delete the same, one of them
// succeeds.
func TestIdempotentOperationsCompareAndSet(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			ctx, b, other := t.Context(), c.Create().Idempotent(), dial(t, srv)
			connected(t, other)
			synctest.Wait() // it has read the configuration
			for _, mode := range []CreateMode{Persistent, Ephemeral, Container} {
				path := "/" + mode.String()
				var stat Stat
				got, err := createThe(ctx, b.WithMode(mode).StoringStatIn(&stat), background, path, "x")
				require.NoError(t, err)
				assert.Equal(t, path, got)
				reads := srv.Counts()["getData"]
				for _, again := range []*Client{c, other} {
					_, err = createThe(ctx, again.Create().Idempotent().WithMode(mode), background, path, "x")
					assert.EqualError(t, err, "create "+path+": node already exists")
				}
				assert.Equal(t, reads, srv.Counts()["getData"], "nothing to look at")
			}
			_, err := createThe(ctx, b.CreatingParentsIfNeeded().Compressed(), background, "/p/q/r", "x")
			require.NoError(t, err)
			_, err = createThe(ctx, b.WithMode(PersistentSequential), background, "/s-", "x")
			assert.ErrorIs(t, err, ErrBadArguments)
			_, err = createThe(ctx, b.WithMode(PersistentSequential).WithProtection(), background, "/s-", "x")
			assert.NoError(t, err)

			set := func(c *Client) (Stat, error) {
				return setThe(ctx, c.SetData().Idempotent().WithVersion(0), background, "/Persistent", "one")
			}
			stat, err := set(c)
			require.NoError(t, err)
			assert.Equal(t, int32(1), stat.Version)
			for _, again := range []*Client{c, other} {
				_, err = set(again)
				assert.EqualError(t, err, "setData /Persistent: version conflict")
			}
			_, err = setThe(ctx, c.SetData().Idempotent(), background, "/none", "x")
			assert.ErrorIs(t, err, ErrNoNode)

			or := c.Create().OrSetDataVersion(1).Idempotent()
			_, err = createThe(ctx, or, background, "/Persistent", "two")
			require.NoError(t, err)
			_, err = createThe(ctx, or, background, "/Persistent", "two")
			assert.ErrorIs(t, err, ErrBadVersion)

			remove := func(c *Client) error {
				return deleteThe(ctx, c.Delete().Idempotent(), background, "/Persistent")
			}
			require.NoError(t, remove(c))
			assert.EqualError(t, remove(c), "delete /Persistent: node does not exist")
			assert.NoError(t, deleteThe(ctx, c.Delete().Idempotent().Quietly(), background, "/Persistent"))
			make1(t, c, "/v", "")
			assert.ErrorIs(t, deleteThe(ctx, c.Delete().Idempotent().WithVersion(3), background, "/v"), ErrBadVersion)
		})
	})
}

// A refusal after a lost reply is a success if the operation itself can have caused it, in the background, too.
func TestIdempotentOperationsAfterALostReply(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			ctx := t.Context()
			lose := func(op, path string) *zktest.Injection {
				connected(t, c)
				return srv.Inject(zktest.Fault{Op: op, PathPrefix: path, Action: zktest.LoseReply})
			}
			for _, mode := range []CreateMode{Persistent, Ephemeral} {
				path, lost := "/"+mode.String(), lose("create2", "/"+mode.String())
				got, err := createThe(ctx, c.Create().Idempotent().WithMode(mode), background, path, "x")
				require.NoError(t, err)
				assert.Equal(t, path, got)
				assert.Equal(t, 1, lost.Hits())
			}
			lose("setData", "/Persistent")
			stat, err := setThe(ctx, c.SetData().Idempotent().WithVersion(0), background, "/Persistent", "one")
			require.NoError(t, err)
			assert.Equal(t, int32(1), stat.Version)

			lose("setData", "/Persistent")
			_, err = createThe(ctx, c.Create().OrSetDataVersion(1).Idempotent(), background, "/Persistent", "two")
			require.NoError(t, err)
			assert.Equal(t, int32(2), srv.Tree()["/Persistent"].Stat.Version)
			lose("create2", "/or")
			_, err = createThe(ctx, c.Create().OrSetDataVersion(7).Idempotent(), background, "/or", "made")
			require.NoError(t, err, "it was made, and has version 0")

			lost := lose("delete", "/Persistent")
			require.NoError(t, deleteThe(ctx, c.Delete().Idempotent().WithVersion(2), background, "/Persistent"))
			assert.Equal(t, 1, lost.Hits())
			assert.NotContains(t, srv.Tree(), "/Persistent")
		})
	})
}

// A first try that was itself refused, with its reply lost, was not executed: the repeat's refusal is the result.
func TestIdempotentOperationsKnowWhatWasThereBefore(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			ctx := t.Context()
			plant(t, srv, "/a", "/seen") // with their paths as data
			require.NoError(t, srv.Set("/seen", []byte("one")))
			require.NoError(t, c.Sync().ForPath(ctx, "/a"))
			srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
			_, err := createThe(ctx, c.Create().Idempotent(), background, "/a", "/a")
			assert.ErrorIs(t, err, ErrNodeExists)
			assert.NotErrorIs(t, err, ErrOutcomeUnknown)
			connected(t, c)
			srv.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
			_, err = setThe(ctx, c.SetData().Idempotent().WithVersion(0), background, "/seen", "one")
			assert.ErrorIs(t, err, ErrBadVersion)
			assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		})
	})
}

func deleteThe(ctx context.Context, b DeleteBuilder, background bool, path string) error {
	if background {
		_, err := b.InBackground().ForPath(ctx, path).Wait(ctx)
		return err
	}
	return b.ForPath(ctx, path)
}

func TestIdempotentCreateAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, b := t.Context(), c.Create().Idempotent()
		lost := srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		path, err := b.ForPath(ctx, "/a", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, "/a", path)
		assert.Equal(t, 1, lost.Hits())
		assert.Equal(t, 2, srv.Counts()["create2"])

		// The reply to the read is lost as well.
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		looked := srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/b", Action: zktest.LoseReply})
		_, err = b.ForPath(ctx, "/b", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, 1, looked.Hits())

		// Executed, and changed by another client before the repeat: the outcome stays unknown.
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		hold := srv.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
		got := make(chan error)
		go func() { _, err := b.ForPath(ctx, "/c", []byte("x")); got <- err }()
		<-hold.Struck()
		require.NoError(t, srv.Set("/c", []byte("y")))
		hold.Release()
		err = <-got
		assert.ErrorIs(t, err, ErrConnectionLoss)
		assert.NotErrorIs(t, err, ErrNodeExists)

		// The session of the first try has ended, and its node is deleted.
		id := connected(t, c).ID()
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
		hold = srv.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
		go func() { _, err := b.WithMode(Ephemeral).ForPath(ctx, "/d", []byte("x")); got <- err }()
		<-hold.Struck()
		srv.Expire(id)
		hold.Release()
		require.NoError(t, <-got)
		assert.Equal(t, connected(t, c).ID(), srv.Tree()["/d"].Stat.EphemeralOwner)
		assert.NotEqual(t, id, connected(t, c).ID())
	})
}

func TestIdempotentSetDataAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, b := t.Context(), c.SetData().Idempotent()
		make1(t, c, "/a", "zero")
		srv.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
		stat, err := b.WithVersion(0).ForPath(ctx, "/a", []byte("one"))
		require.NoError(t, err)
		assert.Equal(t, int32(1), stat.Version)

		srv.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
		hold := srv.Inject(zktest.Fault{Op: "setData", Action: zktest.Hold})
		got := make(chan error)
		go func() { _, err := b.WithVersion(1).ForPath(ctx, "/a", []byte("two")); got <- err }()
		<-hold.Struck()
		require.NoError(t, srv.Set("/a", []byte("three")))
		hold.Release()
		err = <-got
		assert.ErrorIs(t, err, ErrConnectionLoss, "it was done, or not")
		assert.NotErrorIs(t, err, ErrBadVersion)
	})
	// The root of a namespace is made as for any operation.
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		b := c.UsingNamespace("team").SetData().Idempotent().WithVersion(0)
		srv.Inject(zktest.Fault{Op: "setData", Times: 2, Action: zktest.LoseReply})
		_, err := b.ForPath(t.Context(), "/", []byte("one"))
		require.NoError(t, err)
	})
}

// A client that may not read the node cannot find out: the error reports that, and that the operation may have been
// executed.
func TestIdempotentOperationsThatMayNotLook(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			ctx := t.Context()
			plant(t, srv, "/set", "/or")
			srv.Inject(zktest.Fault{Op: "getData", Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
			for op, do := range map[string]func() error{
				"create2": func() error { return second(createThe(ctx, c.Create().Idempotent(), background, "/a", "x")) },
				"setData": func() error {
					return second(setThe(ctx, c.SetData().Idempotent().WithVersion(0), background, "/set", "x"))
				},
				"setData of a create": func() error {
					return second(createThe(ctx, c.Create().Idempotent().OrSetDataVersion(0), background, "/or", "x"))
				},
				"multi": func() error {
					return second(c.IdempotentTransaction(ctx, c.TransactionOp().Create().ForPath("/t", nil)))
				},
			} {
				connected(t, c)
				op, _, _ := strings.Cut(op, " ")
				lost := srv.Inject(zktest.Fault{Op: op, Action: zktest.LoseReply})
				err := do()
				assert.Equal(t, 1, lost.Hits())
				assert.ErrorIs(t, err, ErrConnectionLoss, op)
				assert.ErrorIs(t, err, ErrOutcomeUnknown, op)
				assert.ErrorIs(t, err, ErrNoAuth, op)
			}
		})
	})
}

// In a later session nothing proves that a try was not executed. But the last change before the first try cannot be a
// try's.
func TestIdempotentOperationsInALaterSession(t *testing.T) {
	for _, tt := range []struct {
		path, first string // of the operation's first request
		do          func(ctx context.Context, c *Client) error
	}{
		{"/new", "create2", func(ctx context.Context, c *Client) error {
			return second(c.Create().Idempotent().ForPath(ctx, "/new", []byte("one")))
		}},
		{"/old", "setData", func(ctx context.Context, c *Client) error {
			return second(c.SetData().Idempotent().WithVersion(0).ForPath(ctx, "/old", []byte("one")))
		}},
		{"/old", "create2", func(ctx context.Context, c *Client) error {
			return second(c.Create().OrSetDataVersion(0).Idempotent().ForPath(ctx, "/old", []byte("one")))
		}},
	} {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			ctx := t.Context()
			plant(t, srv, "/old")
			if tt.path == "/new" {
				make1(t, c, "/new", "one")
			} else {
				require.NoError(t, second(c.SetData().ForPath(ctx, "/old", []byte("one"))))
			}
			id := connected(t, c).ID()
			srv.Inject(zktest.Fault{Op: tt.first, Action: zktest.CutBefore})
			repeat := srv.Inject(zktest.Fault{Op: tt.first, Action: zktest.Hold})
			got := make(chan error)
			go func() { got <- tt.do(ctx, c) }()
			<-repeat.Struck()
			srv.Expire(id)
			repeat.Release()
			assert.ErrorIs(t, <-got, ErrOutcomeUnknown)
		})
	}
}

// A node that an earlier try cannot have made is not attributed to it, although it has the same data: another session's
// ephemeral node, or a persistent one in place of an ephemeral one.
func TestAForeignNodeIsNotAttributedToAnEarlierTry(t *testing.T) {
	for _, tt := range []struct{ ours, theirs CreateMode }{
		{Persistent, Ephemeral}, {Ephemeral, Ephemeral}, {Ephemeral, Persistent},
	} {
		for op, call := range map[zktest.Op]func(context.Context, *Client) error{
			"create2": func(ctx context.Context, c *Client) error {
				return second(c.Create().Idempotent().WithMode(tt.ours).ForPath(ctx, "/n", []byte("x")))
			},
			"multi": func(ctx context.Context, c *Client) error {
				return second(c.IdempotentTransaction(ctx, c.TransactionOp().SetData().WithVersion(0).ForPath("/old", []byte("x")),
					c.TransactionOp().Create().WithMode(tt.ours).ForPath("/n", []byte("x"))))
			},
		} {
			t.Run(fmt.Sprint(op, " ", tt.ours, " ", tt.theirs), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
					plant(t, srv, "/old")
					other := dial(t, srv)
					connected(t, other)
					srv.Inject(zktest.Fault{Op: op, Action: zktest.CutBefore})
					repeat := srv.Inject(zktest.Fault{Op: op, Session: connected(t, c).ID(), Action: zktest.Hold})
					got := make(chan error)
					go func() { got <- call(t.Context(), c) }()
					<-repeat.Struck()
					to := other.TransactionOp()
					_, err := other.Transaction(t.Context(), to.SetData().ForPath("/old", []byte("x")),
						to.Create().WithMode(tt.theirs).ForPath("/n", []byte("x")))
					require.NoError(t, err)
					repeat.Release()
					assert.ErrorIs(t, <-got, ErrConnectionLoss)
				})
			})
		}
	}
}
