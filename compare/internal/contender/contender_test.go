package contender

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/compare/internal/judge"
	"github.com/go-curator/curator/compare/internal/ledger"
	"github.com/go-curator/curator/compare/internal/ways"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local is a way to lock within this process.
type local struct {
	token chan struct{}
	lost  *atomic.Bool
}

func (l local) Acquire(ctx context.Context) (ways.Hold, error) {
	select {
	case l.token <- struct{}{}:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
func (l local) Try(context.Context) (ways.Hold, error) { return nil, ways.ErrNone }
func (l local) Close() error                           { return nil }
func (l local) Reenter(context.Context) error          { return ways.ErrNone }
func (l local) Release(context.Context) error          { <-l.token; return nil }
func (l local) Lost() error {
	if l.lost.Load() {
		return errors.New("gone")
	}
	return nil
}

// contenders run on one ledger until the function that is returned ends them.
func contenders(t *testing.T, l local, ids ...string) (path string, say map[string]io.Writer, end func()) {
	path = filepath.Join(t.TempDir(), "ledger")
	say = map[string]io.Writer{}
	var running sync.WaitGroup
	var closers []io.Closer
	for _, id := range ids {
		r, w := io.Pipe()
		say[id], closers = w, append(closers, w)
		running.Go(func() {
			assert.NoError(t, Run(Options{Ledger: path, Config: ways.Config{ID: id}, Kind: ways.Kind{
				Open: func(context.Context, ways.Config) (ways.Way, error) { return l, nil }}}, r))
		})
	}
	return path, say, func() {
		for _, c := range closers {
			assert.NoError(t, c.Close())
		}
		running.Wait()
	}
}

// lines waits until the ledger has what is wanted.
func lines(t *testing.T, path string, wanted func([]ledger.Line) bool) (all []ledger.Line) {
	require.Eventually(t, func() bool {
		r, err := ledger.Open(path)
		if err != nil {
			return false
		}
		defer r.Close()
		all, err = r.More()
		return err == nil && wanted(all)
	}, time.Minute, time.Millisecond)
	return all
}

func count(all []ledger.Line, who string, e ledger.Event, note string) (n int) {
	for _, l := range all {
		if (who == "" || l.Who == who) && l.Event == e && l.Note == note {
			n++
		}
	}
	return n
}

func TestTurnsAreNoted(t *testing.T) {
	l := local{make(chan struct{}, 1), &atomic.Bool{}}
	path, _, end := contenders(t, l, "a", "b")
	lines(t, path, func(all []ledger.Line) bool {
		return count(all, "a", ledger.Freed, "") > 1 && count(all, "b", ledger.Freed, "") > 1
	})
	end()
	all := lines(t, path, func([]ledger.Line) bool { return true })
	assert.Empty(t, judge.Judge(all).Overlaps)
	assert.Equal(t, count(all, "", ledger.Begin, ""), count(all, "", ledger.End, ""))
}

// Two that do not exclude each other must be found out, or the ledger is worth nothing.
func TestNoLockIsFoundOut(t *testing.T) {
	l := local{make(chan struct{}, 2), &atomic.Bool{}}
	path, _, end := contenders(t, l, "a", "b")
	lines(t, path, func(all []ledger.Line) bool { return len(judge.Judge(all).Overlaps) > 0 })
	end()
}

func TestALongHoldLeavesWhenTold(t *testing.T) {
	l := local{make(chan struct{}, 1), &atomic.Bool{}}
	path, say, end := contenders(t, l, "a")
	_, err := io.WriteString(say["a"], "next 1h\n")
	require.NoError(t, err)
	lines(t, path, func(all []ledger.Line) bool { return count(all, "a", ledger.Begin, Long) == 1 })
	_, err = io.WriteString(say["a"], "leave\noff\n")
	require.NoError(t, err)
	lines(t, path, func(all []ledger.Line) bool { return all[len(all)-1].Event == ledger.Freed })
	_, err = io.WriteString(say["a"], "on\n")
	require.NoError(t, err)
	lines(t, path, func(all []ledger.Line) bool { return count(all, "a", ledger.Begin, "") > 0 })
	end()
}

func TestTheClockIsNoted(t *testing.T) {
	l := local{make(chan struct{}, 1), &atomic.Bool{}}
	path, say, end := contenders(t, l, "a")
	_, err := io.WriteString(say["a"], "clock\n")
	require.NoError(t, err)
	noted := ""
	lines(t, path, func(all []ledger.Line) bool {
		for _, each := range all {
			if each.Event == ledger.Clock {
				noted = each.Note
			}
		}
		return noted != ""
	})
	end()
	now, err := time.Parse(time.RFC3339, noted)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), now, time.Minute)
}

func TestNoActAfterALossThatWasTold(t *testing.T) {
	l := local{make(chan struct{}, 1), &atomic.Bool{}}
	path, say, end := contenders(t, l, "a")
	_, err := io.WriteString(say["a"], "next 1h\n")
	require.NoError(t, err)
	lines(t, path, func(all []ledger.Line) bool { return count(all, "a", ledger.Begin, Long) == 1 })
	l.lost.Store(true)
	all := lines(t, path, func(all []ledger.Line) bool { return count(all, "a", ledger.Told, "gone") > 0 })
	end()
	told := false
	for _, each := range judge.Holds(all) {
		told = told || each.Told != 0
		if each.Told != 0 {
			assert.LessOrEqual(t, each.Last, each.Told)
		}
	}
	assert.True(t, told)
}

func TestWhatIsNoCommand(t *testing.T) {
	c := &contender{}
	assert.ErrorContains(t, c.command("jump"), "there is no command")
	assert.Error(t, c.command("next soon"))
}
