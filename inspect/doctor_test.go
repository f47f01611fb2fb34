package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/zktest"
)

func doctor(t *testing.T, c *framework.Client) inspect.Report {
	t.Helper()
	r, err := inspect.Doctor(background, c)
	require.NoError(t, err)
	return r
}

func TestDoctorOfOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithSessionTimeout(30*time.Second))
		s.ResetCounts()
		r := doctor(t, c)
		synctest.Wait()
		assert.Equal(t, map[string]int{"checkWatches": 1, "exists": 5, "sync": 5, "getData": 1, "getACL": 1, "multiRead": 1}, requests(s))
		assert.Equal(t, framework.OpenACL(), r.ACL)
		assert.True(t, r.QuotasKnown)
		assert.Empty(t, r.Quotas)
		require.Len(t, r.Told, 1)
		assert.Equal(t, "standalone", r.Told[0].Mode)
		assert.Equal(t, []string{s.Addr()}, r.Servers)
		assert.Empty(t, r.Members)
		assert.Equal(t, "bound: standalone server; holds are lost 29s after the last request that got a reply", r.Rule)
		assert.Equal(t, 30*time.Second, r.Health.Safety.SessionTimeout)
		assert.Equal(t, []string{"the server is standalone: while it is down no lock can be acquired, and its disk has " +
			"the only copy"}, r.Advice)
	})
}

func TestDoctorOfAnEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		e.SetPeerDelay(10 * time.Millisecond)
		connect := func(address string, timeout time.Duration) *framework.Client {
			c, err := framework.New(address, framework.WithDialer(e.Dial), framework.WithSessionTimeout(timeout))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			require.NoError(t, c.WaitConnected(t.Context()))
			synctest.Wait()
			return c
		}
		r := doctor(t, connect(e.ConnectString(), 30*time.Second))
		assert.Empty(t, r.Advice)
		assert.Len(t, r.Members, 3)
		assert.Len(t, r.Servers, 3)
		assert.Equal(t, "bound: holds are lost 16s after the last request that got a reply, since a member may "+
			"reply for 13s (WithStaleServerBound) after it has lost its leader", r.Rule)
		assert.Zero(t, r.Reads.Most)

		far := connect(e.Addrs()[(e.Leader()+1)%3], 10*time.Second)
		r = doctor(t, far)
		assert.Contains(t, r.Rule, "heartbeat: while the client holds something, it writes every ")
		require.Len(t, r.Advice, 1)
		assert.Contains(t, r.Advice[0], "the client knows one server of 3")

		e.SetPeerDelay(900 * time.Millisecond)
		r = doctor(t, far)
		assert.Contains(t, fmt.Sprint(r.Advice), "the leader took 1.8s to reply, more than a sixth of")
		assert.Zero(t, r.Reads.Most)
		e.SetPeerDelay(0)
	})
}

// If no server replies the report has that, and comes without a wait.
func TestDoctorWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		s.Stop()
		time.Sleep(time.Second)
		began := time.Now()
		r := doctor(t, c)
		assert.Zero(t, time.Since(began))
		assert.Contains(t, r.Advice[0], "cannot reach the servers: none that the client tries replies (refused: 1)")
		assert.Zero(t, r.Reads)
		require.NoError(t, s.Start())
		require.NoError(t, c.WaitConnected(background))
		synctest.Wait()

		refused := s.Inject(zktest.Fault{Op: "getData", PathPrefix: "/zookeeper", Action: zktest.ReplyError,
			Err: zktest.ErrNoAuth, Times: -1})
		assert.Contains(t, doctor(t, c).Advice[0], "the ensemble's configuration cannot be read: ")
		refused.Remove()

		s.Pause()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := inspect.Doctor(ctx, c)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		s.Resume()

		closed := newClient(t, s)
		require.NoError(t, closed.Close())
		_, err = inspect.Doctor(background, closed)
		assert.ErrorIs(t, err, framework.ErrClosed)
	})
}

// A session timeout that allows no hold is the first advice.
func TestDoctorOfATimeoutThatIsTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{TickTime: 500 * time.Millisecond})
		c, err := framework.New(e.ConnectString(), framework.WithDialer(e.Dial),
			framework.WithSessionTimeout(time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.WaitConnected(t.Context()))
		synctest.Wait()
		r := doctor(t, c)
		assert.Equal(t, "no hold can be granted", r.Rule)
		assert.Contains(t, r.Advice[0], "no hold can be granted: ")
	})
}
