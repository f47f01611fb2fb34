package framework

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A reply is lost, or the request was, and the repeat is refused. If the state of the node proves that no try was executed,
// the error is the refusal; otherwise the outcome is unknown. /n has the version 1, and /n/child below it; /none is not
// there.
func TestARefusalAfterALostReply(t *testing.T) {
	errUnknown := ErrOutcomeUnknown
	set := func(version int32) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			return second(c.SetData().WithVersion(version).ForPath(ctx, "/n", []byte("ours")))
		}
	}
	setAgain := func(ctx context.Context, c *Client) error {
		return second(c.SetData().WithVersion(1).Idempotent().ForPath(ctx, "/n", []byte("ours")))
	}
	create := func(ctx context.Context, c *Client) error {
		return second(c.Create().ForPath(ctx, "/n", []byte("ours")))
	}
	createNone := func(ctx context.Context, c *Client) error {
		return second(c.Create().ForPath(ctx, "/none", []byte("ours")))
	}
	orSet := func(version int32) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			return second(c.Create().OrSetDataVersion(version).ForPath(ctx, "/n", []byte("ours")))
		}
	}
	remove := func(b func(*Client) DeleteBuilder) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { return b(c).ForPath(ctx, "/n") }
	}
	plain := remove(func(c *Client) DeleteBuilder { return c.Delete() })
	versioned := remove(func(c *Client) DeleteBuilder { return c.Delete().WithVersion(0) })
	multi := func(ops func(TransactionOps) []TransactionOp) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			results, err := c.IdempotentTransaction(ctx, ops(c.TransactionOp())...)
			var refused *TransactionError
			if errors.As(err, &refused) && len(results) == 0 {
				return errors.New("a refusal without results")
			}
			return err
		}
	}
	both := multi(func(to TransactionOps) []TransactionOp {
		return []TransactionOp{to.SetData().WithVersion(1).ForPath("/n", []byte("ours")), to.Create().ForPath("/none", []byte("ours"))}
	})
	type do = func(t *testing.T, s *zktest.Server)
	nothing := func(*testing.T, *zktest.Server) {}
	sets := func(data ...string) do {
		return func(t *testing.T, s *zktest.Server) {
			for _, d := range data {
				require.NoError(t, s.Set("/n", []byte(d)))
			}
		}
	}
	deletes := func(paths ...string) do {
		return func(t *testing.T, s *zktest.Server) {
			for _, path := range paths {
				require.NoError(t, s.Delete(path))
			}
		}
	}
	creates := func(path string) do {
		return func(t *testing.T, s *zktest.Server) { require.NoError(t, s.Create(path, []byte("theirs"))) }
	}
	all := func(steps ...do) do {
		return func(t *testing.T, s *zktest.Server) {
			for _, step := range steps {
				step(t, s)
			}
		}
	}
	unreadable := func(t *testing.T, s *zktest.Server) {
		require.NoError(t, s.SetACL("/n", zktest.ACL{Perms: 2, Scheme: "world", ID: "anyone"}))
	}
	for name, tc := range map[string]struct {
		op       zktest.Op
		call     func(context.Context, *Client) error
		executed bool // the first try is executed, or refused, and its reply is lost
		before   do   // changes of other clients that the client has not seen when it calls
		between  do   // their changes while the reply is missing
		want     error
	}{
		"set, version that was":           {"setData", set(0), false, nothing, nothing, ErrBadVersion},
		"set, version that is to come":    {"setData", set(2), false, nothing, nothing, ErrBadVersion},
		"set, refusal lost":               {"setData", set(0), true, nothing, nothing, ErrBadVersion},
		"set, other before":               {"setData", set(1), false, sets("theirs"), nothing, ErrBadVersion},
		"set, other between":              {"setData", set(1), false, nothing, sets("theirs"), ErrBadVersion},
		"set, the same between":           {"setData", set(1), false, nothing, sets("ours"), errUnknown},
		"set, two between":                {"setData", set(1), false, nothing, sets("theirs", "theirs"), errUnknown},
		"set, executed":                   {"setData", set(1), true, nothing, nothing, errUnknown},
		"set, executed and overwritten":   {"setData", set(1), true, nothing, sets("theirs"), errUnknown},
		"set, executed and made anew":     {"setData", set(1), true, nothing, all(deletes("/n/child", "/n"), creates("/n")), errUnknown},
		"set, executed, anew and set":     {"setData", set(1), true, nothing, all(deletes("/n/child", "/n"), creates("/n"), sets("theirs", "theirs")), errUnknown},
		"set, made anew":                  {"setData", set(1), false, nothing, all(deletes("/n/child", "/n"), creates("/n")), errUnknown},
		"set, unreadable":                 {"setData", set(0), false, unreadable, nothing, errUnknown},
		"set again, other between":        {"setData", setAgain, false, nothing, sets("theirs"), ErrBadVersion},
		"set again, executed":             {"setData", setAgain, true, nothing, nothing, nil},
		"create":                          {"create2", create, false, nothing, nothing, ErrNodeExists},
		"create, refusal lost":            {"create2", create, true, nothing, nothing, ErrNodeExists},
		"create, changed between":         {"create2", create, false, nothing, sets("ours"), ErrNodeExists},
		"create, made anew":               {"create2", create, false, nothing, all(deletes("/n/child", "/n"), creates("/n")), errUnknown},
		"create, made between":            {"create2", createNone, false, nothing, creates("/none"), errUnknown},
		"create, made before, not seen":   {"create2", createNone, false, creates("/none"), nothing, errUnknown},
		"create, executed":                {"create2", createNone, true, nothing, nothing, errUnknown},
		"create, unreadable":              {"create2", create, false, unreadable, nothing, errUnknown},
		"create or set":                   {"setData", orSet(0), false, nothing, nothing, ErrBadVersion},
		"create or set, other between":    {"setData", orSet(1), false, nothing, sets("theirs"), ErrBadVersion},
		"create or set, executed":         {"setData", orSet(1), true, nothing, sets("theirs"), errUnknown},
		"create or set, executed, anew":   {"setData", orSet(1), true, nothing, all(deletes("/n/child", "/n"), creates("/n"), sets("theirs", "theirs")), errUnknown},
		"delete, children":                {"delete", plain, false, nothing, nothing, ErrNotEmpty},
		"delete, version":                 {"delete", versioned, false, nothing, nothing, ErrBadVersion},
		"delete, children in between":     {"delete", plain, false, deletes("/n/child"), creates("/n/new"), ErrNotEmpty},
		"delete, gone":                    {"delete", plain, false, nothing, deletes("/n/child", "/n"), errUnknown},
		"delete, executed and made anew":  {"delete", plain, true, deletes("/n/child"), all(creates("/n"), creates("/n/new")), errUnknown},
		"delete with children":            {"delete", remove(func(c *Client) DeleteBuilder { return c.Delete().DeletingChildrenIfNeeded() }), false, nothing, nothing, nil},
		"multi, exists":                   {"multi", multi(func(to TransactionOps) []TransactionOp { return []TransactionOp{to.Create().ForPath("/n", nil)} }), false, nothing, nothing, ErrNodeExists},
		"multi, children":                 {"multi", multi(func(to TransactionOps) []TransactionOp { return []TransactionOp{to.Delete().ForPath("/n")} }), false, nothing, nothing, ErrNotEmpty},
		"multi, executed":                 {"multi", both, true, nothing, nothing, nil},
		"multi, one made by another":      {"multi", both, false, nothing, creates("/none"), ErrNodeExists},
		"multi, both changed by others":   {"multi", both, false, nothing, all(sets("ours"), creates("/none")), errUnknown},
		"multi, executed and overwritten": {"multi", both, true, nothing, sets("theirs"), errUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				ctx := t.Context()
				plant(t, srv, "/n", "/n/child")
				require.NoError(t, srv.Set("/n", nil))
				require.NoError(t, c.Sync().ForPath(ctx, "/n"))
				tc.before(t, srv)
				action := zktest.CutBefore
				if tc.executed {
					action = zktest.LoseReply
				}
				srv.Inject(zktest.Fault{Op: tc.op, Action: action})
				repeat := srv.Inject(zktest.Fault{Op: tc.op, Action: zktest.Hold})
				got := make(chan error)
				go func() { got <- tc.call(ctx, c) }()
				<-repeat.Struck()
				tc.between(t, srv)
				repeat.Release()
				switch err := <-got; tc.want {
				case nil:
					assert.NoError(t, err)
				case errUnknown:
					assert.ErrorIs(t, err, errUnknown)
				default:
					assert.ErrorIs(t, err, tc.want)
					assert.NotErrorIs(t, err, errUnknown)
				}
			})
		})
	}
}

// In the next session nothing is proved: a try of the last session, if that was not closed, may be executed late.
func TestARefusalInTheNextSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		plant(t, srv, "/n")
		require.NoError(t, c.Sync().ForPath(t.Context(), "/n"))
		id := connected(t, c).ID()
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.CutBefore})
		repeat := srv.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
		got := make(chan error)
		go func() { got <- second(c.Create().ForPath(t.Context(), "/n", nil)) }()
		<-repeat.Struck()
		srv.Expire(id)
		repeat.Release()
		assert.ErrorIs(t, <-got, ErrOutcomeUnknown)
	})
}

// The node is deleted between the refusal of the repeat and the read that follows it: then the read proves nothing.
func TestANodeThatIsDeletedAfterARefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		op, read zktest.Op
		call     func(context.Context, *Client) error
		want     error
	}{
		"set": {"setData", "getData", func(ctx context.Context, c *Client) error {
			return second(c.SetData().WithVersion(0).ForPath(ctx, "/n", []byte("ours")))
		}, ErrOutcomeUnknown},
		"create": {"create2", "getData", func(ctx context.Context, c *Client) error {
			return second(c.Create().Idempotent().ForPath(ctx, "/n", []byte("ours")))
		}, ErrOutcomeUnknown},
		"create or set": {"setData", "getData", func(ctx context.Context, c *Client) error {
			return second(c.Create().OrSetDataVersion(0).ForPath(ctx, "/n", []byte("ours")))
		}, ErrOutcomeUnknown},
		"create or set, idempotent": {"setData", "getData", func(ctx context.Context, c *Client) error {
			return second(c.Create().OrSetDataVersion(0).Idempotent().ForPath(ctx, "/n", []byte("ours")))
		}, nil},
		"delete, version": {"delete", "exists", func(ctx context.Context, c *Client) error {
			return c.Delete().WithVersion(0).ForPath(ctx, "/n")
		}, ErrOutcomeUnknown},
		"multi": {"multi", "getData", func(ctx context.Context, c *Client) error {
			return second(c.IdempotentTransaction(ctx, c.TransactionOp().SetData().WithVersion(0).ForPath("/n", nil)))
		}, ErrOutcomeUnknown},
		"multi, delete": {"multi", "getData", func(ctx context.Context, c *Client) error {
			return second(c.IdempotentTransaction(ctx, c.TransactionOp().Check().ForPath("/"),
				c.TransactionOp().Delete().WithVersion(0).ForPath("/n")))
		}, ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				plant(t, srv, "/n")
				require.NoError(t, srv.Set("/n", nil))
				require.NoError(t, c.Sync().ForPath(t.Context(), "/n"))
				srv.Inject(zktest.Fault{Op: tc.op, Action: zktest.CutBefore})
				read := srv.Inject(zktest.Fault{Op: tc.read, PathPrefix: "/n", Action: zktest.Hold})
				got := make(chan error)
				go func() { got <- tc.call(t.Context(), c) }()
				<-read.Struck()
				require.NoError(t, srv.Delete("/n"))
				read.Release()
				if err := <-got; tc.want == nil {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, tc.want)
				}
			})
		})
	}
}
