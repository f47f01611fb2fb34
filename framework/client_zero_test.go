package framework

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// Methods of a client that is nil or zero, and of values made with it, return ErrNoClient wherever they can return an
// error. They neither panic nor wait.
func TestWhatNobodyHasMade(t *testing.T) {
	ctx := t.Context()
	for _, c := range []*Client{nil, {}} {
		h := c.Health()
		assert.Equal(t, ErrNoClient, h.Err())
		assert.Equal(t, ErrNoClient, h.Check(time.Hour))
		assert.NotContains(t, h.String(), "no connection", "there was no time since when there is none")
		assert.NotContains(t, Health{}.Err().Error(), " for ")
		for name, call := range everything {
			assert.NotPanics(t, func() { call(ctx, c) }, name)
		}
		for name, err := range map[string]error{"Close": c.Close(), "CloseContext": c.CloseContext(ctx),
			"Err": c.Err(), "WaitConnected": c.WaitConnected(ctx),
			"Retry": c.Retry(ctx, func(context.Context) error { return nil }), "SetServers": c.SetServers("h:1")} {
			assert.ErrorIs(t, err, ErrNoClient, name)
		}
		_, open := <-c.StateChanges(ctx)
		assert.False(t, open)
		_, err := c.Session(ctx)
		assert.ErrorIs(t, err, ErrNoClient)
		_, err = c.SessionSoon(ctx)
		assert.ErrorIs(t, err, ErrNoClient)
		_, err = c.UsingNamespace("ns").UsingRetry(nil).ForRecipes().GetData().ForPath(ctx, "/")
		assert.ErrorIs(t, err, ErrNoClient)
		_, err = c.Transaction(ctx, c.TransactionOp().Check().ForPath("/"))
		assert.ErrorIs(t, err, ErrNoClient)
	}
	first := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"create":      first(CreateBuilder{}.WithProtection().Compressed().ForPath(ctx, "/a", nil)),
		"delete":      DeleteBuilder{}.Guaranteed().DeletingChildrenIfNeeded().ForPath(ctx, "/a"),
		"exists":      first(ExistsBuilder{}.Watching(func(Event) {}).ForPath(ctx, "/a")),
		"getData":     first(GetDataBuilder{}.Decompressed().ForPath(ctx, "/a")),
		"setData":     first(SetDataBuilder{}.ForPath(ctx, "/a", nil)),
		"getChildren": first(GetChildrenBuilder{}.ForPath(ctx, "/a")),
		"getACL":      first(GetACLBuilder{}.ForPath(ctx, "/a")),
		"setACL":      first(SetACLBuilder{}.WithACL(OpenACL()...).ForPath(ctx, "/a")),
		"sync":        SyncBuilder{}.ForPath(ctx, "/a"),
		"multiRead":   first(MultiReadBuilder{}.ForReads(ctx, ReadData("/a"))),
		"addWatch":    first(AddWatchBuilder{}.ForPath(ctx, "/a")),
		"watches":     first(WatchesBuilder{}.Add().ForPath(ctx, "/a")),
		"getConfig":   first((&Client{}).GetConfig(ctx)),
		"reconfig":    first((&Client{}).Reconfigure(ctx, nil, []string{"1"}, nil, -1)),
		"transaction": first((&Client{}).Transaction(ctx, TransactionOps{}.Create().ForPath("/a", nil),
			TransactionOp{})),
		"hold":       first((&Session{}).Hold(ctx, HoldOptions{Path: "/a"})),
		"quorum":     (&Session{}).WaitQuorum(ctx),
		"background": first(CreateBuilder{}.InBackground().ForPath(ctx, "/a", nil).Wait(ctx)),
		"pending":    first((&Pending[int]{}).Wait(ctx)),
	} {
		assert.ErrorIs(t, err, ErrNoClient, name)
		assert.ErrorIs(t, err, ErrBadArguments, name)
	}
	for _, op := range []TransactionOp{TransactionOps{}.Delete().ForPath("/a"),
		TransactionOps{}.SetData().ForPath("/a", nil), TransactionOps{}.Check().ForPath("/a")} {
		assert.ErrorIs(t, op.argumentError, ErrNoClient)
	}
	(&Watch{}).Stop()
	(*Watch)(nil).Stop()
	(&Pending[int]{}).Then(func(int, error) {})
	(&Pending[int]{}).IfFailed(func(error) {})
	assert.False(t, (&Pending[int]{}).Ended())
	s, h := &Session{}, &Hold{}
	assert.Zero(t, s.Epoch()+s.ID()+int64(s.Timeout())+int64(s.Connections()))
	assert.True(t, s.Ended()())
	<-s.Done()
	assert.ErrorIs(t, context.Cause(s.Context()), ErrNoClient)
	assert.ErrorIs(t, s.Client().Err(), ErrNoClient)
	h.End(nil)
	assert.False(t, h.Valid())
	assert.Zero(t, h.Remaining())
	assert.Zero(t, h.Grace())
	assert.ErrorIs(t, context.Cause(h.Context()), ErrNoClient)
}

func TestArgumentsThatAreMistakes(t *testing.T) {
	for connect, says := range map[string]string{
		"host\xff:2181":                        "UTF-8",
		strings.Repeat("x", 200_000):           "200000 bytes",
		"host:" + strings.Repeat("9", 200_000): "not a port",
		strings.Repeat("a,", 100_000):          "",
		strings.Repeat("a;", 100_000):          "servers are not separated by commas",
	} {
		_, err := New(connect)
		if err == nil {
			t.Errorf("%.20q…: no error", connect)
			continue
		}
		assert.ErrorContains(t, err, says)
		assert.Less(t, len(err.Error()), 1000)
		require.ErrorIs(t, err, ErrInvalidConnectString)
	}
	_, err := New("host", WithAuth("digest", []byte("svc")))
	require.ErrorIs(t, err, ErrInvalidOption)
	assert.NotContains(t, err.Error(), "svc", "it may be a password")
	_, err = New("host", WithNamespace("/a"))
	require.ErrorIs(t, err, ErrInvalidPath)
	assert.ErrorContains(t, err, "slash")

	synctest.Test(t, func(t *testing.T) {
		c, ctx := dial(t, zktest.RunT(t)), t.Context()
		connected(t, c)
		_, err := c.UsingNamespace("/a").GetData().ForPath(ctx, "/b")
		assert.ErrorIs(t, err, ErrInvalidPath)
		_, err = c.Create().WithMode(PersistentTTL).WithTTL(1500*time.Microsecond).ForPath(ctx, "/a", nil)
		assert.ErrorIs(t, err, ErrBadArguments)
		_, err = c.Create().WithMode(PersistentTTL).WithTTL(maxTTL+time.Millisecond).ForPath(ctx, "/a", nil)
		assert.ErrorIs(t, err, ErrBadArguments)
		_, err = c.Create().OrSetDataVersion(-5).ForPath(ctx, "/a", nil)
		assert.ErrorIs(t, err, ErrBadArguments)
		c.Spawn(nil)
		assert.ErrorIs(t, c.Retry(ctx, nil, nil), ErrBadArguments)
		var none context.Context
		assert.ErrorIs(t, c.Retry(none, nil, nil), ErrNilContext)
		c.Pause(none, time.Hour)
	})
}
