package framework

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest"
)

// A search is conclusive only if its list came on the connection of its write.
func TestWhenASearchIsConclusive(t *testing.T) {
	lost := errors.New("lost")
	for _, c := range []struct {
		wrote, listed wire.Reply
		want          error
	}{
		{wire.Reply{Connection: 1}, wire.Reply{Connection: 1}, nil},
		{wire.Reply{Connection: 1, Code: jute.CodeNoNode}, wire.Reply{Connection: 1}, nil},
		{wire.Reply{Connection: 1, Code: jute.CodeNoAuth}, wire.Reply{Connection: 1}, nil},
		{wire.Reply{Connection: 1}, wire.Reply{Connection: 2}, ErrConnectionLoss},
		{wire.Reply{Connection: 1, Code: jute.CodeNoAuth}, wire.Reply{Connection: 2}, ErrConnectionLoss},
		{wire.Reply{Connection: 1}, wire.Reply{Connection: 1, Code: jute.CodeNoNode}, ErrNoNode},
		{wire.Reply{Err: lost}, wire.Reply{Connection: 1}, lost},
		{wire.Reply{Connection: 1}, wire.Reply{Err: lost}, lost},
	} {
		assert.ErrorIs(t, inconclusiveReason(c.wrote, c.listed), c.want, "%+v", c)
	}
}

// Nodes as a transaction would have left them, but changed by two, are not its work.
func TestWhatTwoTransactionsLeaveIsNotOnes(t *testing.T) {
	left := expectedNodes{"/a": {written: true, version: -1}, "/b": {written: true, version: -1}}
	found := func(a, b int64) map[string]foundNode {
		return map[string]foundNode{"/a": {exists: true, stat: Stat{Mzxid: a}}, "/b": {exists: true, stat: Stat{Mzxid: b}}}
	}
	assert.True(t, left.areMatchedBy(found(7, 7), 5, 1))
	assert.False(t, left.areMatchedBy(found(7, 8), 5, 1))
	assert.False(t, left.areMatchedBy(found(7, 4), 5, 1))
	assert.False(t, left.areMatchedBy(found(4, 4), 5, 1))
}

// A wait for the clean-ups waits for those in progress, and for replies that may lead to more.
func TestCleanupsAreIdle(t *testing.T) {
	q := cleanupQueue{pending: map[nodeCleanup]struct{}{{path: "/a"}: {}}, idle: make(chan struct{})}
	idle := q.idle
	q.expectLateReplies(1)
	delete(q.pending, nodeCleanup{path: "/a"})
	q.expectLateReplies(0)
	assert.NotNil(t, q.idle, "an answer is awaited")
	q.pending[nodeCleanup{path: "/b"}] = struct{}{}
	q.expectLateReplies(-1)
	assert.NotNil(t, q.idle, "one is under way")
	delete(q.pending, nodeCleanup{path: "/b"})
	q.expectLateReplies(0)
	<-idle
}

// A session that is lost by the clock may live on at the servers. While they do not close it, the next one is announced
// only when no request of the lost session can be in flight any more.
func TestTheFenceOfALapsedSessionLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithFenceGrace(0))
		s := connected(t, c)
		away := srv.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		srv.Cut(s.ID())
		<-s.Done()
		lost := time.Now()
		srv.Inject(zktest.Fault{Op: "closeSession", Session: s.ID(), Times: -1, Action: zktest.CutBefore})
		away.Remove()
		require.NoError(t, c.WaitConnected(t.Context()))
		assert.GreaterOrEqual(t, time.Since(lost), 2*s.Timeout())
	})
}

// Close waits for a clean-up, and no longer.
func TestCloseEndsWithTheLastCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		require.NoError(t, srv.Create("/a", nil))
		deleting := srv.Inject(zktest.Fault{Op: "delete", Action: zktest.Hold})
		require.NoError(t, c.core.ops.cleanups.addCleanup(nodeCleanup{path: "/a", version: -1}))
		<-deleting.Struck()
		time.AfterFunc(time.Second, deleting.Release)
		began := time.Now()
		require.NoError(t, c.Close())
		assert.Equal(t, time.Second, time.Since(began))
		assert.False(t, srv.Exists("/a"))
	})
}

// A reply that comes at the instant when its caller gives up goes to the caller, or is thrown away. No late reply is
// expected then: Close would wait for it.
func TestAReplyWhenItsCallerGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		e := connected(t, c).epoch
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 { // select chooses at random
			r := &operationRun[CreateResult]{}
			require.NoError(t, r.initialize(t.Context(), c.Create().WithProtection().operation("/a", nil), false))
			w := newAwaitedRequest().(*awaitedRequest)
			w.onReply(wire.Reply{Zxid: 7})
			reply, abandoned, err := w.wait(ended, e, &wire.Call{}, r)
			require.NoError(t, err)
			assert.False(t, abandoned)
			assert.EqualValues(t, 7, reply.Zxid)
		}
		assert.Zero(t, c.PendingCleanups())

		p := c.Create().WithProtection().InBackground().ForPath(t.Context(), "/a", nil)
		require.NoError(t, second(p.Wait(t.Context())))
		p.operation.(*operationRun[CreateResult]).abandonWait(ended, p)
		assert.Zero(t, c.PendingCleanups())
		require.NoError(t, second(p.Wait(t.Context())))
	})
}
