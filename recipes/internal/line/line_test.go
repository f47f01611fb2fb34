package line_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// lineRig is a directory with readers and writers, the more demanding kind of line; recipes/mutex tests the plain kind.
type lineRig struct {
	t *testing.T
	s *zktest.Server
	c *framework.Client
}

const dir = "/rw"

func newLineRig(t *testing.T) *lineRig {
	s := zktest.RunT(t)
	c, err := framework.New(s.Addr(), framework.WithDialer(s.Dial), framework.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitConnected(t.Context()))
	require.NoError(t, s.Create(dir, nil))
	return &lineRig{t, s, c}
}

// join joins a reader or a writer to the line, and returns the channel of its grant.
func (r *lineRig) join(order line.Order, name string) <-chan *line.Grant {
	r.t.Helper()
	l := &line.Line{Client: r.c, Dir: dir, Name: name, Order: order, Loss: framework.SessionOnly}
	granted := make(chan *line.Grant, 1)
	go func() {
		grant, err := l.Acquire(context.Background())
		if err != nil {
			r.t.Errorf("acquire: %v", err)
		}
		granted <- grant
	}()
	synctest.Wait()
	return granted
}

func (r *lineRig) read() <-chan *line.Grant  { return r.join(readOrder, "__READ__") }
func (r *lineRig) write() <-chan *line.Grant { return r.join(writeOrder, "__WRIT__") }

func (r *lineRig) release(g *line.Grant) {
	r.t.Helper()
	require.NoError(r.t, g.Release(context.Background()))
	synctest.Wait()
}

func TestReadersAndWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		r1, r2 := r.read(), r.read()
		require.Len(t, r1, 1)
		require.Len(t, r2, 1, "readers share")
		w1 := r.write()
		r3 := r.read()
		w2 := r.write()
		r4, r5 := r.read(), r.read()
		require.Empty(t, w1)
		require.Empty(t, r3, "a reader does not pass a writer that waits")

		r.release(<-r2) // in any order
		require.Empty(t, w1)
		r.s.ResetCounts()
		r.release(<-r1)
		require.Len(t, w1, 1)
		require.Equal(t, 1, r.s.Counts()["getChildren2"], "one is woken, and never takes its turn without a list")

		r.s.ResetCounts()
		r.release(<-w1)
		require.Len(t, r3, 1)
		require.Equal(t, 1, r.s.Counts()["getChildren2"], "the readers behind the second writer sleep on")
		require.Empty(t, r4)
		r.release(<-r3)
		r.release(<-w2)
		require.Len(t, r4, 1)
		require.Len(t, r5, 1)
		r.release(<-r4)
		r.release(<-r5)
		require.Empty(t, r.s.Watches())
		children, err := r.s.Children(dir)
		require.NoError(t, err)
		require.Empty(t, children)
	})
}

// A downgraded reader's node has the number of its writer's: the next writer waits for both.
func TestWriterBehindADowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		session, err := r.c.Session(t.Context())
		require.NoError(t, err)
		g := <-r.write()
		digits := g.Name[len(g.Name)-10:]
		reader, err := r.s.CreateNode(dir+"/_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-__READ__"+digits, nil,
			zktest.Ephemeral, session.ID())
		require.NoError(t, err)
		next := r.write()
		r.release(g)
		require.Empty(t, next, "the reader is still there")
		require.NoError(t, r.s.Delete(reader))
		synctest.Wait()
		require.Len(t, next, 1)
		r.release(<-next)
	})
}

func TestParticipantsOfALimitedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		first, second := r.write(), r.write()
		l := &line.Line{Client: r.c, Dir: dir, Order: writeOrder}
		all, err := l.Participants(t.Context(), nil, 0)
		require.NoError(t, err)
		require.Len(t, all, 2)
		r.s.ResetCounts()
		one, err := l.Participants(t.Context(), nil, 1)
		require.NoError(t, err)
		require.Equal(t, all[:1], one)
		require.Equal(t, 1, r.s.Counts()["getData"])
		leaver, found, err := line.First(one, nil)
		require.True(t, found)
		require.NoError(t, err)
		require.Equal(t, one[0], leaver)
		_, found, err = line.First(one, framework.ErrNoAuth)
		require.False(t, found)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		_, found, err = line.First([]line.Participant{}, nil)
		require.False(t, found)
		require.NoError(t, err)
		r.release(<-first)
		r.release(<-second)
	})
}

// A waiter behind a node of no session waits for ever: the log has the node, once for all waiters.
func TestANodeOfNoSessionAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		c := recipetest.Client(t, s, framework.WithLogger(log.Logger()))
		require.NoError(t, s.Create(dir, nil))
		order := line.Order{Names: []string{"lock-"}}
		l := &line.Line{Client: c, Dir: dir, Name: "lock-", Order: order, Loss: framework.SessionOnly}
		said := func() int { return strings.Count(log.String(), "is not ephemeral") }
		wait := func() *recipetest.Call[*line.Grant] {
			return recipetest.Begin(t, func() (*line.Grant, error) { return l.Acquire(t.Context()) }).Waits()
		}
		holder, err := l.Acquire(t.Context())
		require.NoError(t, err)
		next := wait()
		require.Zero(t, said(), "behind a contender")
		for n := range 2 {
			stranger, err := s.CreateNode(dir+"/lock-", nil, zktest.PersistentSequential, 0)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			_, err = l.Acquire(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, n+1, said())
			after := wait()
			require.Equal(t, n+1, said())
			require.Contains(t, log.String(), stranger)
			require.NoError(t, s.Delete(stranger))
			require.NoError(t, holder.Release(t.Context()))
			holder, next = next.OK(), after
		}
		require.NoError(t, holder.Release(t.Context()))
		require.NoError(t, next.OK().Release(t.Context()))
	})
}

// Contenders that leave between the list and the read are left out. Others are read instead, up to the limit.
func TestParticipantsOneOfWhomLeaves(t *testing.T) {
	for limit, reads := range map[int]int{0: 4, 1: 2, 2: 3} {
		synctest.Test(t, func(t *testing.T) {
			r := newLineRig(t)
			first, second, third, fourth := r.write(), r.write(), r.write(), r.write()
			l := &line.Line{Client: r.c, Dir: dir, Order: writeOrder}
			read := r.s.Inject(zktest.Fault{Op: "getData", PathPrefix: dir, Action: zktest.Hold})
			r.s.ResetCounts()
			call := recipetest.Begin(t, func() ([]line.Participant, error) { return l.Participants(t.Context(), nil, limit) })
			<-read.Struck()
			leaver := <-first
			require.NoError(t, r.s.Delete(leaver.Path))
			read.Release()
			all := call.End().OK()
			require.Equal(t, reads, r.s.Counts()["getData"])
			holder := <-second
			require.Equal(t, holder.Path, all[0].Path)
			require.Len(t, all, reads-1)
			leaver.ReleaseNoWait()
			r.release(holder)
			r.release(<-third)
			r.release(<-fourth)
		})
	}
}

// Data that are too large, alone or together, are left out; their contenders are not.
func TestParticipantsWithLargeData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{MaxFrame: 4 << 20})
		c := recipetest.Client(t, s, framework.WithMaxReply(1<<20))
		l := &line.Line{Client: c, Dir: dir, Order: mutexOrder}
		require.NoError(t, s.Create(dir, nil))
		write := func(size int) (path string) {
			path, err := s.CreateNode(dir+"/lock-", make([]byte, size), zktest.EphemeralSequential, recipetest.Session(t, c))
			require.NoError(t, err)
			return path
		}
		huge := write(2 << 20)
		const room = 16 << 20 / framework.ContenderDataLimit
		for range room {
			write(framework.ContenderDataLimit)
		}
		write(1)
		write(0)
		all, err := l.Participants(t.Context(), nil, 0)
		require.NoError(t, err)
		require.Len(t, all, 1+room+2)
		for i, p := range all {
			require.Equal(t, recipetest.Session(t, c), p.SessionID)
			if i == 0 || i == 1+room {
				require.ErrorIs(t, p.DataErr, framework.ErrDataTooLarge, i)
				require.Empty(t, p.Data)
			} else {
				require.NoError(t, p.DataErr)
			}
		}
		require.Len(t, all[room].Data, framework.ContenderDataLimit)

		// The first leaves before its Stat is read.
		stats := s.Inject(zktest.Fault{Op: "exists", Action: zktest.Hold})
		call := recipetest.Begin(t, func() ([]line.Participant, error) { return l.Participants(t.Context(), nil, 1) })
		<-stats.Struck()
		require.NoError(t, s.Delete(huge))
		stats.Release()
		require.Equal(t, all[1:2], call.End().OK())
	})
}
