package mutex_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A new holder reads all that the previous holder has written, even if its connection ends right after the event of the grant,
// and the next server lags behind.
func TestTheNextHolderReadsWhatTheLastOneWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		require.NoError(t, e.AwaitSettled(t.Context()))
		near, late := e.Member(e.Leader()), (e.Leader()+1)%3
		require.NoError(t, near.Create("/value", []byte("before")))
		connect := func() *framework.Client {
			c, err := framework.New(near.Addr(), framework.WithDialer(e.Dial), framework.WithSessionTimeout(30*time.Second))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			return c
		}
		a, b := connect(), connect()
		held := acquire(t, mutex.New(a, path))
		granted := make(chan *mutex.Lock)
		waiting := mutex.New(b, path, mutex.WithLossPolicy(framework.SessionOnly))
		go func() {
			lock, err := waiting.Acquire(background)
			assert.NoError(t, err)
			granted <- lock
		}()
		time.Sleep(time.Second)
		e.SetLag(late, 2*time.Second)
		_, err := a.SetData().ForPath(background, "/value", []byte("after"))
		require.NoError(t, err)
		near.ResetCounts()
		go func() { assert.NoError(t, held.Release(background)) }()
		lock := <-granted
		require.NoError(t, b.SetServers(e.Member(late).Addr()))
		time.Sleep(time.Millisecond)
		value, err := b.GetData().ForPath(background, "/value")
		require.NoError(t, err)
		assert.Equal(t, "after", string(value))
		assert.Zero(t, near.Counts()["getChildren2"], "it was granted without a list")
		e.SetLag(late, 0)
		assert.NoError(t, lock.Release(background))
	})
}
