package stories

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-curator/curator/framework"
)

// scene is one workload in a group.
type scene struct {
	t    *testing.T
	g    *group
	name string
	path string
	// dirs are the directories, relative to path, that may be left empty; the servers remove them later.
	dirs *regexp.Regexp
	// held means that clients hold something in it, and keep it.
	held bool
	// settled, if not nil, checks the state while no client is active.
	settled func(t *testing.T)
	// over, if not nil, checks the state when all clients have stopped.
	over func()
	// java, if not nil, is the Java process's part until ctx ends, or the process is killed.
	java func(ctx context.Context, p *guest)
	// slow means that Java may be held up without a fault, for as long as its session lasts.
	slow bool

	rounds [clients + 1]atomic.Int64 // done by each
	holds  [clients + 1]atomic.Int64 // the current holds of each
	wrong  atomic.Int64              // violations
}

// part is one client's part until ctx ends.
type part func(ctx context.Context, who int)

func (s *scene) done(who int) { s.rounds[who].Add(1) }

func (s *scene) total() (n int) {
	for i := range s.rounds {
		n += int(s.rounds[i].Load())
	}
	return n
}

func (s *scene) fail(format string, args ...any) {
	s.t.Helper()
	s.wrong.Add(1)
	s.t.Errorf(s.name+": "+format, args...)
}

// fine reports whether there is no error. After an error it pauses; the errors that may occur are always the same.
func (s *scene) fine(ctx context.Context, err error) bool {
	s.t.Helper()
	if err == nil {
		return true
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return false
	}
	for _, expected := range []error{
		framework.ErrConnectionLoss, framework.ErrNotConnected, framework.ErrSessionLost, framework.ErrSuspended,
		framework.ErrSessionMoved,
	} {
		if errors.Is(err, expected) {
			pause(ctx, 20*time.Millisecond)
			return false
		}
	}
	s.fail("%v", err)
	pause(ctx, 100*time.Millisecond)
	return false
}

// keep is for a client that has just been granted something: the hold is registered for a while, or until it is lost. A
// client that clings keeps it until then.
func (s *scene) keep(ctx context.Context, r *register, h *hold) {
	s.t.Helper()
	if h.weight == 0 {
		h.weight = 1
	}
	valid, err := r.enter(h)
	if err != nil {
		s.fail("%v", err)
	}
	if !valid {
		return
	}
	defer r.leave(h)
	s.holds[h.who].Add(1)
	defer s.holds[h.who].Add(-1)
	clings := func() bool { return s.g.cling[h.who].Load() && s.g.ctx.Err() == nil }
	for end := time.Now().Add(rand.N(40 * time.Millisecond)); (time.Now().Before(end) || clings()) &&
		h.valid(); {
		pause(context.WithoutCancel(ctx), 5*time.Millisecond)
	}
}

// think is the time between two rounds.
func think(ctx context.Context) { pause(ctx, rand.N(100*time.Millisecond)) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
