package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// held is the part of a lock that the ledger needs.
type held interface {
	Context() context.Context
	FencingToken() int64
}

// ledger writes down who held the lock and checks that there was never more than one.
type ledger struct {
	out      io.Writer
	began    time.Time
	unplugAt int // the grant whose holder loses its network

	mu       sync.Mutex
	grants   int   // guarded by mu
	last     held  // the lock granted last, guarded by mu
	failure  error // the first violation, guarded by mu
	previous int   // the worker of last, guarded by mu
}

// granted records a grant when the worker has acquired the lock. It reports whether this worker should be unplugged.
func (l *ledger) granted(worker int, lock held, waited time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	fmt.Fprintf(l.out, "%7.3fs  grant %2d: worker %d, fencing token %d, waited %v\n",
		time.Since(l.began).Seconds(), l.grants, worker, lock.FencingToken(), waited.Round(time.Millisecond))
	if l.last != nil && l.failure == nil {
		switch {
		case l.last.Context().Err() == nil:
			l.failure = fmt.Errorf("worker %d was granted the lock while worker %d still had it",
				worker, l.previous)
		case lock.FencingToken() <= l.last.FencingToken():
			l.failure = fmt.Errorf("worker %d was granted the lock with token %d, after worker %d with %d",
				worker, lock.FencingToken(), l.previous, l.last.FencingToken())
		}
	}
	l.last, l.previous = lock, worker
	return l.grants == l.unplugAt
}

func (l *ledger) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, format+"\n", args...)
}
