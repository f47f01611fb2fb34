package inspect_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/zktest"
)

// The configuration of the servers is compared with the client's options.
func TestDoctorOfAMisconfiguredEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{SyncLimit: 10, MaxClientConns: 10})
		c, err := framework.New(e.ConnectString(), framework.WithDialer(e.Dial), framework.WithSessionTimeout(40*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.WaitConnected(t.Context()))
		synctest.Wait()
		r := doctor(t, c)
		require.Len(t, r.Told, 3)
		modes := map[string]int{}
		for _, s := range r.Told {
			modes[s.Mode]++
			assert.Equal(t, 10, s.Config.SyncLimit)
			assert.True(t, s.Listed)
		}
		assert.Equal(t, map[string]int{"leader": 1, "follower": 2}, modes)
		require.Len(t, r.Advice, 3, "one for each server: %q", r.Advice)
		assert.Contains(t, r.Advice[0], "may reply for 23s after it has lost its leader ((syncLimit 10 + 1.5) × "+
			"tickTime 2s), and the client assumes 13s")

		for range 8 { // with the client's own nine
			other, err := framework.New(e.Addrs()[0], framework.WithDialer(e.Dial))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, other.Close()) })
			require.NoError(t, other.WaitConnected(t.Context()))
		}
		assert.Contains(t, fmt.Sprint(doctor(t, c).Advice), "of the 10 that it allows for one address (maxClientCnxns)")

		e.Member(e.Leader()).Stop()
		time.Sleep(10 * time.Second)
		require.NoError(t, c.WaitConnected(t.Context()))
		assert.Contains(t, fmt.Sprint(doctor(t, c).Advice), "refuses connections: it does not run")
	})
}

// Without a quorum the report has the role of each member, and the zxid of each member that replies.
func TestDoctorWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		c, err := framework.New(e.ConnectString(), framework.WithDialer(e.Dial))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.WaitConnected(t.Context()))
		for _, told := range doctor(t, c).Told {
			assert.NotZero(t, told.Zxid)
		}
		e.Member(0).Stop()
		e.Member(1).Pause()
		time.Sleep(time.Minute)
		r := doctor(t, c)
		var roles []string
		for _, told := range r.Told {
			roles = append(roles, told.Role())
		}
		assert.Equal(t, []string{"refused", "silent", "no quorum"}, roles)
		assert.Contains(t, r.Advice[0], "no server with a quorum can be reached: ")
		assert.Contains(t, fmt.Sprint(r.Advice), "runs without a quorum: a majority of the members must run")
		e.Member(1).Resume()
		require.NoError(t, e.Member(0).Start())
		require.NoError(t, c.WaitConnected(t.Context()))
	})
}

func TestDoctorOfQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		for _, path := range []string{"/full", "/roomy", "/zookeeper/quota/full", "/zookeeper/quota/roomy"} {
			require.NoError(t, s.Create(path, nil))
		}
		require.NoError(t, s.Create("/zookeeper/quota/full/zookeeper_limits", []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1")))
		require.NoError(t, s.Create("/zookeeper/quota/full/zookeeper_stats", []byte("count=1,bytes=0")))
		require.NoError(t, s.Create("/zookeeper/quota/roomy/zookeeper_limits", []byte("count=100,bytes=1000")))
		c := newClient(t, s)
		r := doctor(t, c)
		require.Len(t, r.Quotas, 2)
		assert.Equal(t, inspect.Quota{Path: "/full", Nodes: 1, MaxNodes: -1, MaxBytes: -1, HardNodes: 1,
			HardBytes: -1}, r.Quotas[0])
		assert.Equal(t, int64(1000), r.Quotas[1].MaxBytes)
		assert.Contains(t, r.Advice[len(r.Advice)-1], "the quota of /full is nearly used up: 1 of 1 nodes (hard limit)")

		below, err := framework.New(s.Addr()+"/full", framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer below.Close()
		require.NoError(t, below.WaitConnected(t.Context()))
		assert.False(t, doctor(t, below).QuotasKnown)
	})
}

func TestDoctorsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		r, err := inspect.Doctor(background, c, inspect.WithProbe("/"))
		require.NoError(t, err)
		require.NotNil(t, r.Probe)
		assert.Zero(t, r.Probe.Write)
		assert.LessOrEqual(t, max(r.Probe.Ahead, -r.Probe.Ahead), r.Probe.Within)
		synctest.Wait()
		for path := range s.Tree() {
			assert.NotContains(t, path, "probe")
		}
		r, err = inspect.Doctor(background, c, inspect.WithProbe("/nowhere"))
		require.NoError(t, err)
		assert.Nil(t, r.Probe)
		assert.Contains(t, fmt.Sprint(r.Advice), "a node in /nowhere cannot be created")
		_, err = inspect.Doctor(background, c, inspect.WithProbe("nowhere"))
		assert.ErrorIs(t, err, framework.ErrInvalidPath)
	})
}

// A refused read of the root is a reply, too.
func TestDoctorWithoutARightToTheRoot(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{Profile: profile})
			require.NoError(t, s.SetACL("/", zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}))
			r, err := inspect.Doctor(background, newClient(t, s))
			require.NoError(t, err)
			assert.NotContains(t, fmt.Sprint(r.Advice), "no permission", "%v", profile)
		})
	}
}

// A server without replies to four-letter words hides no other result, and one that hangs delays doctor by three seconds.
func TestDoctorOfServersThatDoNotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		hang := false
		var ends []net.Conn
		c := newClient(t, s, framework.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !hang {
				return s.Dial(ctx, network, addr)
			}
			ours, theirs := net.Pipe()
			ends = append(ends, theirs)
			return ours, nil
		}))
		hang = true
		began := time.Now()
		r := doctor(t, c)
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.NotZero(t, r.Rule)
		assert.Contains(t, fmt.Sprint(r.Advice), "has not replied for 3s: it hangs")
		assert.Equal(t, "silent", r.Told[0].Role())
		connected, err := inspect.Connections(background, c)
		require.NoError(t, err)
		assert.Contains(t, connected.Missing, "1 of 1 server does not list the connections")
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = inspect.Servers(ctx, c)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		for _, end := range ends {
			end.Close()
		}
	})
}
