// Package curatorgocron makes the schedulers of several processes share their jobs: each run of a job of gocron
// (github.com/go-co-op/gocron/v2) takes place in one process.
//
//	locker := curatorgocron.NewLocker(client, "/jobs", 10*time.Second)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// It is a separate module, so that users of the library do not get gocron.
package curatorgocron

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
)

// ErrNotLeader is the error of [Elector.IsLeader] while another process leads, or it is not certain that this one does.
var ErrNotLeader = errors.New("curatorgocron: this process is not the leader")

// Locker implements gocron.Locker with a lock for each job. Safe for concurrent use.
type Locker struct {
	client  *framework.Client
	path    string
	atLeast time.Duration

	mu   sync.Mutex
	held map[string]*mutex.Lock
}

// NewLocker returns a locker whose locks are children of path. The lock of a job is a mutex.Mutex, and so excludes
// Curator's InterProcessMutex, at path and the job's name with its special characters escaped as in a URL: the job
// "a/b" has the lock PATH/a%2Fb. Give jobs names (gocron.WithName): otherwise a job has its function's.
//
// A lock is held until its job has returned, and at least for atLeast since the grant. The schedulers of two hosts
// start the same run at slightly different times, and a short job would have returned already when the second one asks
// for the lock. So atLeast has to be longer than the hosts' clocks differ, and shorter than the time between two runs.
// (A process that ends, or loses its session, holds no lock any longer.)
func NewLocker(client *framework.Client, path string, atLeast time.Duration) *Locker {
	return &Locker{client: client, path: path, atLeast: atLeast, held: map[string]*mutex.Lock{}}
}

// Lock implements gocron.Locker: it tries to acquire the lock of the job, without waiting for another holder. While
// another process holds it the error is mutex.ErrNotAcquired. Any other error is logged as well, because gocron skips
// the run silently. (gocron.AfterLockError receives both.)
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := mutex.New(l.client, strings.TrimSuffix(l.path, "/")+"/"+escapeName(job)).TryAcquire(ctx)
	if err != nil {
		if !errors.Is(err, mutex.ErrNotAcquired) && ctx.Err() == nil {
			l.client.Logger().Warn("a job does not run: its lock cannot be acquired", "job", job, "err", err)
		}
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[job] = lock
	return &jobLock{locker: l, job: job, lock: lock, granted: time.Now()}, nil
}

// escapeName returns the name of the lock's node for a job.
func escapeName(job string) string {
	if job == "." || job == ".." { // not valid as names of nodes
		return strings.ReplaceAll(job, ".", "%2E")
	}
	return url.PathEscape(job)
}

// Held returns the lock under which this process runs the job, or nil if it does not run. A job that must end when its
// lock is lost uses the Context of the lock; a job that writes to a store passes the lock's FencingToken.
func (l *Locker) Held(job string) *mutex.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[job]
}

// jobLock is the lock of one run.
type jobLock struct {
	locker  *Locker
	job     string
	lock    *mutex.Lock
	granted time.Time
	ended   bool // Unlock was called; guarded by locker.mu
}

// Unlock implements gocron.Lock. If the lock has to be held longer, Unlock returns immediately, and a timer releases the
// lock, also after the end of the scheduler. The error is mutex.ErrReleased after another Unlock, and the cause if the
// lock is lost.
func (j *jobLock) Unlock(ctx context.Context) error {
	if j.end() {
		return mutex.ErrReleased
	}
	rest := j.locker.atLeast - time.Since(j.granted)
	if rest <= 0 || !j.lock.Valid() {
		return j.lock.Release(ctx)
	}
	time.AfterFunc(rest, func() { j.lock.ReleaseInBackground() })
	return nil
}

// end reports whether Unlock was called before.
func (j *jobLock) end() (before bool) {
	j.locker.mu.Lock()
	defer j.locker.mu.Unlock()
	before, j.ended = j.ended, true
	if j.locker.held[j.job] == j.lock {
		delete(j.locker.held, j.job)
	}
	return before
}

// Elector implements gocron.Elector with an election: the leader runs all jobs. Safe for concurrent use.
type Elector struct{ latch *leader.Latch }

// NewElector returns an elector for latch, which stays the caller's to close. Its Term's context ends when the leadership
// is lost; gocron does not end a running job then.
func NewElector(latch *leader.Latch) *Elector { return &Elector{latch} }

// IsLeader implements gocron.Elector. It makes no request.
func (e *Elector) IsLeader(context.Context) error {
	if e.latch.HasLeadership() {
		return nil
	}
	return ErrNotLeader
}
