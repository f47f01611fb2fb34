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
	// held says that it is about something that clients hold, and keep.
	held bool
	// settled, if there is one, makes sure that all is in order when nothing goes on.
	settled func(t *testing.T)
	// over, if there is one, makes sure that all is in order when all have stopped.
	over func()
	// java, if there is one, is what a Java process does until ctx ends, or it is killed.
	java func(ctx context.Context, p *guest)
	// slow says that Java may be held up by itself, for as long as its session lasts.
	slow bool

	rounds [clients + 1]atomic.Int64 // done by each
	holds  [clients + 1]atomic.Int64 // what each has now
	wrong  atomic.Int64              // things that must not be
}

// part is what one client does until ctx ends.
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

// fine says whether there is no error. Then it takes a breath; what kind of error it may be is always the
// same.
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

// keep is for a client that has just been granted something: it is registered for a while, or until it is
// lost. A client that clings keeps it until then.
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
