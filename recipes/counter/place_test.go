package counter_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// hungPlace is the place of a process that has stopped: it stays, and nothing is written.
const hungPlace = path + "/_c_00000000-0000-8000-8000-000000000001-turn-0000000000"

// withoutCreate are all permissions but CREATE.
const withoutCreate = 31 &^ 4

// saturate has clients add without a rest for a while, and returns how long the additions took, in order.
func saturate(t *testing.T, s *zktest.Server, clients int, long time.Duration) []time.Duration {
	t.Helper()
	var all adders
	for range clients {
		c := newClient(t, s)
		s.Delay(session(t, c), 500*time.Microsecond)
		n := counter.NewLong(c, path)
		all.add = append(all.add, func() error { _, err := n.Add(background, 1); return err })
	}
	var wait sync.WaitGroup
	all.run(t, &wait, time.Now().Add(long))
	wait.Wait()
	require.EqualValues(t, len(all.took), at(t, s))
	slices.Sort(all.took)
	return all.took
}

// The process whose turn it is has stopped: the next does not wait until its session ends.
func TestAHungProcessIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/counters", nil))
		require.NoError(t, s.Create(path, make([]byte, 8)))
		require.NoError(t, s.SetSequence(path, 1))
		require.NoError(t, s.Create(hungPlace, nil))
		took := saturate(t, s, 4, 3*time.Second)
		assert.LessOrEqual(t, took[len(took)-1], 400*time.Millisecond)
		assert.LessOrEqual(t, took[len(took)*99/100], 40*time.Millisecond, "it is not waited for again")
		assert.GreaterOrEqual(t, len(took), 3*1400)
	})
}

// Processes that may not create children, or for whose places no numbers are left, race. All of them add.
func TestAddersWithoutALine(t *testing.T) {
	for name, prepare := range map[string]func(*zktest.Server) error{
		"refused": func(s *zktest.Server) error {
			return s.SetACL(path, zktest.ACL{Perms: withoutCreate, Scheme: "world", ID: "anyone"})
		},
		"no numbers": func(s *zktest.Server) error { return s.SetSequence(path, 1<<31-1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create("/counters", nil))
				require.NoError(t, s.Create(path, make([]byte, 8)))
				require.NoError(t, prepare(s))
				took := saturate(t, s, 4, 3*time.Second)
				t.Logf("%d additions, p99 %v, gap %v", len(took), took[len(took)*99/100], took[len(took)-1])
				assert.GreaterOrEqual(t, len(took), 3*500)
				assert.LessOrEqual(t, took[len(took)-1], 500*time.Millisecond)
			})
		})
	}
}

// waitInLine returns an adder that has a place behind the hung one, and its number.
func waitInLine(t *testing.T, s *zktest.Server, ctx context.Context, c *framework.Client) *recipetest.Call[int64] {
	t.Helper()
	other := counter.NewLong(newClient(t, s), path)
	n := counter.NewLong(c, path)
	add(t, other, 1)
	add(t, n, 1)
	add(t, other, 1) // n's write without a read is refused
	require.NoError(t, s.SetSequence(path, 1))
	require.NoError(t, s.Create(hungPlace, nil))
	hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
	call := recipetest.Begin(t, func() (int64, error) { return n.Add(ctx, 1) })
	for range 2 {
		<-hold.Struck()
		add(t, other, 1)
		last := hold
		hold = s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
		last.Release()
	}
	synctest.Wait()
	require.Len(t, places(t, s), 2)
	hold.Release()
	return call
}

// places are the places in line.
func places(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	return slices.DeleteFunc(marks(t, s), func(name string) bool { return !strings.Contains(name, "turn-") })
}

// An adder whose session ends while it waits adds in the next. One whose context ends has added nothing, and its place is
// deleted.
func TestTheWaitInLineEnds(t *testing.T) {
	for _, lost := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			require.NoError(t, s.Create("/counters", nil))
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			c := newClient(t, s)
			call := waitInLine(t, s, ctx, c)
			before := at(t, s)
			if lost {
				s.Expire(session(t, c))
				require.NoError(t, call.End().Err)
				require.Equal(t, before+1, at(t, s))
			} else {
				cancel()
				require.ErrorIs(t, call.End().Err, context.Canceled)
				require.NotErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
				require.Equal(t, before, at(t, s))
			}
			require.Len(t, places(t, s), 1)
			require.NoError(t, s.Delete(hungPlace))
			tidy(t, s, c)
		})
	}
}

// The number is deleted while an adder waits: it begins again at 0.
func TestTheNumberIsDeletedDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/counters", nil))
		call := waitInLine(t, s, background, newClient(t, s))
		require.NoError(t, s.DeleteAll(path))
		require.NoError(t, call.End().Err)
		require.EqualValues(t, 1, call.Value)
		require.EqualValues(t, 1, at(t, s))
	})
}
