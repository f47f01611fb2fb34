package rwlock_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

func sides(rw *rwlock.RWLock) []*rwlock.Side { return []*rwlock.Side{rw.ReadLock(), rw.WriteLock()} }

// While the server hangs, a downgrade returns when its context ends; so does a read of the line.
func TestCancelWhileTheServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s), path)
		writer := acquire(t, background, rw.WriteLock())
		beside := func(context.Context) error {
			ctx, cancel := context.WithCancel(writer.Context())
			stop := time.AfterFunc(100*time.Millisecond, cancel)
			defer stop.Stop()
			_, err := rw.ReadLock().Acquire(ctx)
			assert.ErrorIs(t, err, context.Canceled)
			return context.DeadlineExceeded
		}
		recipetest.CancelWhileTheServerHangs(t, s, []string{path},
			func(ctx context.Context) error { _, err := rw.Participants(ctx); return err },
			beside,
			writer.Release,
		)
	})
}

// In Java a child named 0 blocks the line for ever. Here it does not.
func TestForeignChildrenDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path+"/0", nil))
		require.NoError(t, s.Create(path+"/lock-0000000000", nil)) // a mutex's node: no contender of this recipe
		rw := rwlock.New(newClient(t, s), path)
		for _, side := range sides(rw) {
			lock, err := side.TryAcquire(background)
			require.NoError(t, err)
			next := waiting(t, background, rw.WriteLock())
			release(t, lock)
			release(t, next.OK())
		}
	})
}

func TestSequenceNearItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		rw := rwlock.New(newClient(t, s), path)
		for _, side := range sides(rw) {
			require.NoError(t, s.SetSequence(path, line.SequenceLimit-1))
			writer := acquire(t, background, rw.WriteLock())
			reader := acquire(t, writer.Context(), rw.ReadLock())
			require.Equal(t, writer.Node()[len(writer.Node())-10:], reader.Node()[len(reader.Node())-10:])
			release(t, reader)
			release(t, writer)
			_, err := side.Acquire(background)
			require.ErrorIs(t, err, rwlock.ErrSequenceExhausted)
			clean(t, s)
		}
	})
}

// Each request may lose its reply: no node is created twice, and no caller waits for ever.
func TestRepliesLost(t *testing.T) {
	for _, op := range []string{"create2", "getChildren2", "getData", "delete"} {
		for _, kind := range []rwlock.Kind{rwlock.Read, rwlock.Write} {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				a, b := newClient(t, s), newClient(t, s)
				require.NoError(t, s.Create(path, nil))
				first := acquire(t, background, rwlock.New(a, path).WriteLock())
				fault := s.Inject(zktest.Fault{Session: session(t, b), Op: op, PathPrefix: path,
					Action: zktest.LoseReply})
				side := sides(rwlock.New(b, path))[kind-rwlock.Read]
				done := begin(t, background, side)
				time.Sleep(30 * time.Second)
				done.Waits()
				children, err := s.Children(path)
				require.NoError(t, err)
				require.Len(t, children, 2)
				release(t, first)
				next := done.End().OK()
				require.True(t, next.Valid())
				release(t, next)
				require.Equal(t, 1, fault.Hits())
				time.Sleep(time.Second)
				clean(t, s)
			})
		}
	}
}

// An administrator deletes the node of the reader that the writer waits for: the writer must be granted when the other reader's
// node is deleted, neither earlier nor later.
func TestAdministratorDeletesAReadersNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := rwlock.New(newClient(t, s), path), rwlock.New(newClient(t, s), path)
		r1, r2 := acquire(t, background, a.ReadLock()), acquire(t, background, a.ReadLock())
		time.Sleep(time.Second)
		w := waiting(t, background, b.WriteLock())
		require.NoError(t, s.Delete(r2.Path())) // the writer's predecessor
		<-r2.Context().Done()
		require.ErrorIs(t, context.Cause(r2.Context()), rwlock.ErrNodeDeleted)
		w.Waits()
		require.True(t, r1.Valid())
		require.NoError(t, s.Delete(r1.Path()))
		lock := w.OK()
		require.False(t, r1.Valid())
		for _, r := range []*rwlock.Lock{r1, r2} {
			require.ErrorIs(t, r.Release(background), rwlock.ErrNodeDeleted)
		}
		require.True(t, lock.Valid())
		release(t, lock)
		clean(t, s)
	})
}

// Writers in the middle of the line give up: the reader behind them lists again, and waits for the writer ahead.
func TestWriterInTheMiddleGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := rwlock.New(newClient(t, s), path), rwlock.New(newClient(t, s), path)
		r1 := acquire(t, background, a.ReadLock())
		ctx1, cancel1 := context.WithCancel(background)
		ctx2, cancel2 := context.WithCancel(background)
		w1, w2 := waiting(t, ctx1, a.WriteLock()), waiting(t, ctx2, a.WriteLock())
		r2 := waiting(t, background, b.ReadLock())
		cancel2()
		require.ErrorIs(t, w2.End().Err, context.Canceled)
		require.True(t, r2.Pending(), "another writer is in front")
		cancel1()
		require.ErrorIs(t, w1.End().Err, context.Canceled)
		reader := r2.OK() // at the same time as the first reader
		require.True(t, r1.Valid())
		release(t, reader)
		release(t, r1)
		clean(t, s)
	})
}

// P1: a writer with its read lock, or after its downgrade, loses its network without notice. The contexts end before the next
// writer's grant.
func TestBlackHoleWhileHolding(t *testing.T) {
	for seed := range uint64(26) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := zktest.RunT(t)
			a, b := newClient(t, s, framework.WithSessionTimeout(4*time.Second)), newClient(t, s)
			rw := rwlock.New(a, path)
			var locks []*rwlock.Lock
			writer := acquire(t, background, rw.WriteLock())
			locks = append(locks, acquire(t, writer.Context(), rw.ReadLock()))
			if seed%2 == 0 {
				locks = append(locks, writer)
			} else {
				release(t, writer)
			}
			waiter := waiting(t, background, rwlock.New(b, path).WriteLock())
			time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
			direction := []zktest.Direction{zktest.Both, zktest.FromClient, zktest.ToClient}[random.IntN(3)]
			s.BlackHole(session(t, a), direction)
			blind := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore}) // it cannot reconnect either
			lost := make(chan time.Time, 2)
			for _, lock := range locks {
				context.AfterFunc(lock.Context(), func() { lost <- time.Now() })
			}
			o := waiter.End()
			require.NoError(t, o.Err)
			for _, lock := range locks {
				ended := <-lost
				require.True(t, ended.Before(o.At), "the context ended at %v, the next grant was at %v", ended, o.At)
				require.ErrorIs(t, context.Cause(lock.Context()), rwlock.ErrSessionLost)
				require.ErrorIs(t, lock.Release(background), rwlock.ErrSessionLost)
			}
			blind.Remove()
			release(t, o.Value)
		})
	}
}

// A waiter without the right to read its predecessor's node watches the directory.
func TestNoRightToReadTheNodeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Profile: zktest.V38})
		require.NoError(t, s.Create(path, nil))
		a := newClient(t, s, framework.WithAuth("digest", []byte("a:a")),
			framework.WithDefaultACL(framework.CreatorACL()...))
		ra, rb := rwlock.New(a, path), rwlock.New(newClient(t, s), path)
		for _, side := range sides(rb) {
			writer := acquire(t, background, ra.WriteLock())
			waiter := waiting(t, background, side)
			reader := acquire(t, writer.Context(), ra.ReadLock())
			release(t, reader)
			waiter.Waits()
			release(t, writer)
			release(t, waiter.OK())
			clean(t, s)
		}
	})
}

// A downgrade needs the right to read its own nodes; its error reports that.
func TestNoRightToReadOwnNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		c := newClient(t, s, framework.WithDefaultACL(framework.ACL{Perms: framework.PermWrite, Scheme: "world",
			ID: "anyone"}))
		rw := rwlock.New(c, path)
		writer := acquire(t, background, rw.WriteLock())
		_, err := rw.ReadLock().Acquire(writer.Context())
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.True(t, writer.Valid())
		release(t, writer)
		clean(t, s)
	})
}

func TestPathRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		for _, client := range []*framework.Client{a.UsingNamespace("team"), a.UsingNamespace("team/app")} {
			rw := rwlock.New(client, "/")
			writer := acquire(t, background, rw.WriteLock())
			require.Equal(t, "/"+writer.Node(), writer.Path())
			next := waiting(t, background, rw.WriteLock())
			reader := acquire(t, writer.Context(), rw.ReadLock())
			line, err := rw.Participants(background)
			require.NoError(t, err)
			require.Len(t, line, 3)
			release(t, writer)
			next.Waits()
			release(t, reader)
			release(t, next.OK())
		}
		children, err := s.Children("/")
		require.NoError(t, err)
		require.Equal(t, []string{"team", "zookeeper"}, children)
	})
}
