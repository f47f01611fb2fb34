package curatorkubernetes_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	curatorkubernetes "github.com/go-curator/curator/contrib/kubernetes"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/controllers/billing"

func connect(t *testing.T, s *zktest.Server) *framework.Client {
	t.Helper()
	client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	require.NoError(t, client.WaitConnected(t.Context()))
	return client
}

// process is a process with an elector.
type process struct {
	stop    context.CancelFunc
	stopped chan struct{}

	mu      sync.Mutex
	leading bool
}

func (p *process) leads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leading
}

func (p *process) set(leading bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leading = leading
}

// start starts client-go's elector, with the durations that controllers use.
func start(t *testing.T, c *framework.Client, identity string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{stop: cancel, stopped: make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: curatorkubernetes.NewLock(c, path, identity), ReleaseOnCancel: true,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { p.set(true) },
			OnStoppedLeading: func() { p.set(false) },
		},
	})
	require.NoError(t, err)
	go func() {
		defer close(p.stopped)
		elector.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-p.stopped })
	return p
}

// The leader leads until it stops, and then the other process does, without waiting for the lease to end.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		one := start(t, connect(t, s), "one")
		time.Sleep(3 * time.Second)
		two := start(t, connect(t, s), "two")
		time.Sleep(10 * time.Minute)
		assert.True(t, one.leads())
		assert.False(t, two.leads())
		one.stop()
		<-one.stopped
		assert.False(t, one.leads())
		time.Sleep(5 * time.Second)
		assert.True(t, two.leads())
	})
}

// A leader without a connection stops before the other process begins, also if its session expires in between.
func TestALeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		client := connect(t, s)
		one := start(t, client, "one")
		time.Sleep(3 * time.Second)
		two := start(t, connect(t, s), "two")
		time.Sleep(time.Minute)
		session, err := client.SessionSoon(t.Context())
		require.NoError(t, err)
		id := session.ID()
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.DropRequest, Times: -1})
		s.Expire(id)
		began := time.Now()
		for !two.leads() {
			time.Sleep(100 * time.Millisecond)
			require.False(t, one.leads() && two.leads())
			require.Less(t, time.Since(began), time.Minute)
		}
		assert.False(t, one.leads())
		away.Remove()
	})
}

// A record is written only over the one that was read.
func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), zktest.RunT(t)
		one := curatorkubernetes.NewLock(connect(t, s), path, "one")
		two := curatorkubernetes.NewLock(connect(t, s), path, "two")
		_, _, err := one.Get(ctx)
		require.True(t, apierrors.IsNotFound(err), err)
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "one", LeaseDurationSeconds: 15, LeaderTransitions: 3}
		require.NoError(t, one.Create(ctx, record))
		require.ErrorIs(t, two.Create(ctx, record), framework.ErrNodeExists)
		require.ErrorIs(t, two.Update(ctx, record), framework.ErrBadVersion, "has not read it")
		got, raw, err := two.Get(ctx)
		require.NoError(t, err)
		assert.Equal(t, record, *got)
		stored, _, err := s.Get(path)
		require.NoError(t, err)
		assert.Equal(t, stored, raw)
		require.NoError(t, one.Update(ctx, record))
		require.NoError(t, one.Update(ctx, record))
		require.ErrorIs(t, two.Update(ctx, record), framework.ErrBadVersion)

		require.NoError(t, s.Set(path, []byte("no record")))
		_, _, err = two.Get(ctx)
		require.ErrorContains(t, err, "no record of an election")
		require.NoError(t, s.Set(path, nil))
		got, _, err = two.Get(ctx)
		require.NoError(t, err)
		assert.Empty(t, got.HolderIdentity)
		require.NoError(t, two.Update(ctx, record))
		assert.Equal(t, path, two.Describe())
		_, _, err = curatorkubernetes.NewLock(nil, path, "none").Get(ctx)
		require.ErrorIs(t, err, framework.ErrNoClient)
		assert.Equal(t, "two", two.Identity())
	})
}
