package mutex_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestAcquireAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.New(c, path, mutex.WithNodeData([]byte("me")))
		ctx, cancel := context.WithTimeout(context.WithValue(background, key("k"), "v"), time.Second)
		defer cancel()
		lock, err := m.Acquire(ctx)
		require.NoError(t, err)

		// The layout is exactly Curator's.
		const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
		require.Regexp(t, regexp.MustCompile(`^_c_`+uuid+`-lock-0000000000$`), lock.Node())
		require.Equal(t, path+"/"+lock.Node(), lock.Path())
		tree := s.Tree()
		node := tree[lock.Path()]
		require.Equal(t, zktest.Ephemeral, node.Mode)
		require.Equal(t, "me", string(node.Data))
		require.Equal(t, session(t, c), node.Stat.EphemeralOwner)
		require.Equal(t, node.Stat.Czxid, lock.FencingToken())
		for _, dir := range []string{path, "/locks"} {
			require.Equal(t, zktest.Container, tree[dir].Mode, dir)
			require.Empty(t, tree[dir].Data)
		}

		require.True(t, lock.Valid())
		require.GreaterOrEqual(t, lock.Remaining(), 9*time.Second)
		require.NoError(t, lock.Context().Err())
		require.Equal(t, "v", lock.Context().Value(key("k")))
		time.Sleep(90 * time.Second) // far beyond ctx and the session timeout: the hold stays
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		require.True(t, lock.Valid())
		require.NoError(t, lock.Context().Err())

		release(t, lock)
		require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrReleased)
		require.False(t, lock.Valid())
		require.Zero(t, lock.Remaining())
		require.ErrorIs(t, lock.Release(background), mutex.ErrReleased)
		clean(t, s, path)
	})
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		first := acquire(t, mutex.New(newClient(t, s), path))
		const waiters = 20
		order := make(chan int, waiters)
		tokens := make(chan int64, waiters)
		for i := range waiters {
			m := mutex.New(newClient(t, s), path)
			go func() {
				lock, err := m.Acquire(background)
				assert.NoError(t, err)
				order <- i
				tokens <- lock.FencingToken()
				time.Sleep(time.Second)
				assert.NoError(t, lock.Release(background))
			}()
			synctest.Wait() // its node is in the line
		}
		release(t, first)
		last := first.FencingToken()
		for i := range waiters {
			require.Equal(t, i, <-order)
			token := <-tokens
			require.Greater(t, token, last)
			last = token
		}
		time.Sleep(2 * time.Second)
		clean(t, s, path)
	})
}

func TestReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.New(c, path)
		outer := acquire(t, m)
		time.Sleep(time.Second)
		s.ResetCounts()

		derived, cancel := context.WithCancel(outer.Context())
		defer cancel()
		inner, err := m.Acquire(derived)
		require.NoError(t, err)
		third, err := m.TryAcquire(inner.Context())
		require.NoError(t, err)
		require.Equal(t, outer.FencingToken(), third.FencingToken())
		require.Zero(t, sum(s.Counts()), "re-entry asks nobody")

		release(t, outer) // in any order
		release(t, third)
		require.ErrorIs(t, third.Release(background), mutex.ErrReleased, "each Lock counts once")
		require.False(t, third.Valid())
		require.True(t, inner.Valid())
		require.NoError(t, inner.Context().Err())
		require.Zero(t, sum(s.Counts()))
		release(t, inner)
		require.ErrorIs(t, context.Cause(outer.Context()), mutex.ErrReleased)
		clean(t, s, path)

		// A released hold is not entered again, although a context still carries it.
		again, err := m.Acquire(context.WithoutCancel(outer.Context()))
		require.NoError(t, err)
		require.Greater(t, again.FencingToken(), outer.FencingToken())
		_, err = m.Acquire(outer.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, mutex.ErrReleased)

		// Another client, or a call with another context, waits in line.
		stranger := mutex.New(newClient(t, s), path)
		for ctx, other := range map[context.Context]*mutex.Mutex{again.Context(): stranger, background: m} {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			_, err = other.Acquire(limited)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		release(t, again)
		clean(t, s, path)
	})
}

func TestTryAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := mutex.New(newClient(t, s), path)
		for _, other := range []*mutex.Mutex{mutex.New(newClient(t, s), path),
			mutex.New(newClient(t, s), path, mutex.WithStaleTry())} {
			lock, err := m.TryAcquire(background) // the directory is missing the first time
			require.NoError(t, err)
			_, err = other.TryAcquire(background)
			require.ErrorIs(t, err, mutex.ErrNotAcquired)
			require.ErrorContains(t, err, lock.Node(), "it says who is ahead")
			release(t, lock)
			lock, err = other.TryAcquire(background)
			require.NoError(t, err)
			require.True(t, lock.Valid())
			release(t, lock)
			clean(t, s, path)
		}
	})
}

// A reply to Participants is lost, or a request: they are read again, with all their fields.
func TestParticipantsReadAgainAfterALostReply(t *testing.T) {
	for _, op := range []zktest.Op{"getChildren2", "getData"} {
		for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
			for after := range 2 {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					m := mutex.New(newClient(t, s), path, mutex.WithNodeData([]byte("me")))
					acquire(t, m)
					waiting(t, t.Context(), m)
					c := newClient(t, s)
					want, err := mutex.New(c, path).Participants(background)
					require.NoError(t, err)
					require.Len(t, want, 2)
					fault := s.Inject(zktest.Fault{Session: session(t, c), Op: op, After: after, Action: action})
					for range 2 {
						got, err := mutex.New(c, path).Participants(background)
						require.NoError(t, err)
						require.Equal(t, want, got)
					}
					require.Equal(t, 1, fault.Hits())
				})
			}
		}
	}
}

func TestParticipants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		m := mutex.New(a, path, mutex.WithNodeData([]byte("a")))
		_, ok, err := m.Holder(background)
		require.NoError(t, err)
		require.False(t, ok, "no directory, nobody")
		line, err := m.Participants(background)
		require.NoError(t, err)
		require.Empty(t, line)

		lock := acquire(t, m)
		positions := make(chan mutex.Position, 10)
		second := waiting(t, background, mutex.New(b, path, mutex.WithNodeData([]byte("b")),
			mutex.OnWait(func(p mutex.Position) { positions <- p })))
		third := waiting(t, background, mutex.New(b, path, mutex.OnWait(func(p mutex.Position) { positions <- p })))
		require.NoError(t, s.Create(path+"/aaa", nil))

		line, err = m.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 3)
		require.Equal(t, mutex.Participant{Name: lock.Node(), Path: lock.Path(), Data: []byte("a"),
			SessionID: session(t, a), Czxid: lock.FencingToken(),
			Since: line[0].Since}, line[0])
		require.WithinDuration(t, time.Now(), line[0].Since, time.Second)
		require.Equal(t, "b", string(line[1].Data))
		require.Equal(t, session(t, b), line[2].SessionID)
		require.Equal(t, mutex.Position{Node: line[1].Name, Predecessor: line[0].Name, Ahead: 1}, <-positions)
		require.Equal(t, mutex.Position{Node: line[2].Name, Predecessor: line[1].Name, Ahead: 2}, <-positions)
		holder, ok, err := m.Holder(background)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, line[0], holder)

		// A node that may not be read is still seen.
		require.NoError(t, s.SetACL(line[1].Path, zktest.ACL{Perms: 1, Scheme: "digest", ID: "x:y"}))
		line, err = m.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 3)
		require.Zero(t, line[1].Czxid)

		release(t, lock)
		release(t, second.End().OK())
		release(t, third.End().OK())
	})
}

func TestNewcomersMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for _, mistake := range []struct {
			m    *mutex.Mutex
			is   error
			says string
		}{
			{mutex.New(nil, path), nil, "framework.New"},
			{mutex.New(c, "locks"), framework.ErrInvalidPath, `must start with "/"`},
			{mutex.New(c, "/locks/"), framework.ErrInvalidPath, "must not end"},
			{mutex.New(c, path, nil), framework.ErrInvalidOption, "leave it out"},
			{mutex.New(c, path, mutex.OnWait(nil)), framework.ErrInvalidOption, "leave the option out"},
			{mutex.New(c, path, mutex.WithLossPolicy(7)), framework.ErrInvalidOption, "SessionOnly"},
		} {
			_, err := mistake.m.Acquire(background)
			require.ErrorContains(t, err, mistake.says)
			if mistake.is != nil {
				require.ErrorIs(t, err, mistake.is)
			}
			_, err = mistake.m.TryAcquire(background)
			require.ErrorContains(t, err, mistake.says)
			_, err = mistake.m.Participants(background)
			require.ErrorContains(t, err, mistake.says)
			require.ErrorContains(t, mistake.m.Do(background, func(context.Context) error { panic("called") }),
				mistake.says)
		}
		m := mutex.New(c, path)
		var none context.Context
		_, err := m.Acquire(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
		require.ErrorContains(t, m.Do(background, nil), "nil")
		lock := acquire(t, m)
		require.ErrorIs(t, lock.Release(none), framework.ErrNilContext)
		require.True(t, lock.Valid())
		release(t, lock)
		require.True(t, strings.HasPrefix(fmt.Sprint(lock.Release(background)), "mutex /locks/orders: release: "))
	})
}
