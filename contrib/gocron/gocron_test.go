package curatorgocron_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	curatorgocron "github.com/go-curator/curator/contrib/gocron"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, s *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	client, err := framework.New(s.Addr(), append(opts, framework.WithDialer(s.Dial))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// schedule starts a scheduler that runs the job every minute, for the first time after a delay. No run may last until
// the end of the test: Shutdown waits in a busy loop, which stops virtual time.
func schedule(
	t *testing.T, delay time.Duration, job any, o gocron.SchedulerOption, opts ...gocron.JobOption,
) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(o)
	require.NoError(t, err)
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), append(opts, gocron.WithName("nightly/report"),
		gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(delay))))...)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// runs counts the runs of a job by process.
type runs struct {
	sync.Mutex
	of map[string]int // by process
}

func (r *runs) add(process string) {
	r.Lock()
	defer r.Unlock()
	if r.of == nil {
		r.of = map[string]int{}
	}
	r.of[process]++
}

func (r *runs) byProcess() map[string]int {
	r.Lock()
	defer r.Unlock()
	return maps.Clone(r.of)
}

// The clocks of three hosts differ by seconds, and the job takes no time.
func TestEachRunIsInOneProcess(t *testing.T) {
	for name, c := range map[string]struct {
		atLeast time.Duration
		want    int
	}{
		"held longer than the clocks differ": {10 * time.Second, 5},
		"released with the job's end":        {0, 15},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, ran := zktest.RunT(t), new(runs)
				for i, process := range []string{"a", "b", "c"} {
					locker := curatorgocron.NewLocker(connect(t, server), "/jobs", c.atLeast)
					schedule(t, time.Minute+time.Duration(i)*2*time.Second, func() { ran.add(process) },
						gocron.WithDistributedLocker(locker))
				}
				time.Sleep(5*time.Minute + 30*time.Second)
				total := 0
				for _, n := range ran.byProcess() {
					total += n
				}
				assert.Equal(t, c.want, total)
				names, err := server.Children("/jobs")
				require.NoError(t, err)
				assert.Equal(t, []string{"nightly%2Freport"}, names)
			})
		})
	}
}

// While a job runs longer than the time between two runs, no other process starts it.
func TestALongJobKeepsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ran := zktest.RunT(t), new(runs)
		long := curatorgocron.NewLocker(connect(t, server), "/jobs", 10*time.Second)
		schedule(t, time.Minute, func() {
			ran.add("long")
			time.Sleep(150 * time.Second)
		}, gocron.WithDistributedLocker(long), gocron.WithLimitedRuns(1))
		schedule(t, 65*time.Second, func() { ran.add("other") },
			gocron.WithDistributedLocker(curatorgocron.NewLocker(connect(t, server), "/jobs", 10*time.Second)))
		time.Sleep(3*time.Minute + 15*time.Second)
		assert.Equal(t, map[string]int{"long": 1}, ran.byProcess())
		assert.True(t, long.Held("nightly/report").Valid())
		time.Sleep(2 * time.Minute)
		assert.Equal(t, map[string]int{"long": 1, "other": 2}, ran.byProcess())
		assert.Nil(t, long.Held("nightly/report"))
	})
}

// A job that observes the context of its lock ends before another process can start it.
func TestAJobEndsWithItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		locker := curatorgocron.NewLocker(connect(t, server), "/jobs", 0)
		causes := make(chan error, 1)
		s := schedule(t, time.Second, func() {
			lost := locker.Held("nightly/report").Context()
			<-lost.Done()
			causes <- context.Cause(lost)
		}, gocron.WithDistributedLocker(locker))
		time.Sleep(2 * time.Second)
		server.Stop()
		require.ErrorIs(t, <-causes, mutex.ErrSessionLost)
		require.NoError(t, s.Shutdown())
		assert.Nil(t, locker.Held("nightly/report"))
	})
}

func TestALockThatFailsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := connect(t, zktest.RunT(t), framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		_, err := curatorgocron.NewLocker(client, "jobs", 0).Lock(t.Context(), "report")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		synctest.Wait() // until the log line is written
		assert.Contains(t, log.String(), "a job does not run")

		log.Reset()
		locker := curatorgocron.NewLocker(client, "/jobs", 0)
		for _, name := range []string{".", "..", "main.(*job).Run-fm", "a/b c\x00"} {
			lock, err := locker.Lock(t.Context(), name)
			require.NoError(t, err, name)
			require.NoError(t, lock.Unlock(t.Context()))
		}
		lock, err := curatorgocron.NewLocker(client, "/", time.Second).Lock(t.Context(), "jobs")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()), "is released in a second")
		require.ErrorIs(t, lock.Unlock(t.Context()), mutex.ErrReleased)
		time.Sleep(time.Second)
		lock, err = locker.Lock(t.Context(), "report")
		require.NoError(t, err)
		_, err = locker.Lock(t.Context(), "report")
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.NoError(t, lock.Unlock(t.Context()))
		require.ErrorIs(t, lock.Unlock(t.Context()), mutex.ErrReleased)
		synctest.Wait()
		assert.NotContains(t, log.String(), "a job does not run")
	})
}

// The leader runs all jobs; when it ends its term, the next leader does.
func TestTheLeaderRunsTheJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ran := zktest.RunT(t), new(runs)
		var latches []*leader.Latch
		for _, process := range []string{"a", "b"} {
			latch, err := leader.NewLatch(connect(t, server), "/leader")
			require.NoError(t, err)
			t.Cleanup(func() { _ = latch.Close() })
			latches = append(latches, latch)
			schedule(t, 30*time.Second, func() { ran.add(process) },
				gocron.WithDistributedElector(curatorgocron.NewElector(latch)))
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		assert.Equal(t, map[string]int{"a": 2}, ran.byProcess())
		require.NoError(t, latches[0].Leave(t.Context(), leader.Silent))
		time.Sleep(2 * time.Minute)
		assert.Equal(t, map[string]int{"a": 2, "b": 2}, ran.byProcess())
		assert.ErrorIs(t, curatorgocron.NewElector(latches[0]).IsLeader(t.Context()), curatorgocron.ErrNotLeader)
	})
}
