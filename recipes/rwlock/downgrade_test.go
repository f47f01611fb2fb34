package rwlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// CURATOR-621: during a downgrade neither the waiting writer nor the readers behind it are granted.
func TestDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := rwlock.New(newClient(t, s), path), rwlock.New(newClient(t, s), path)
		writer := acquire(t, background, a.WriteLock())
		next := waiting(t, background, b.WriteLock())
		behind := waiting(t, background, b.ReadLock())
		reader := acquire(t, writer.Context(), a.ReadLock())
		// it is a second read lock: the write lock's context does not carry the first
		again, err := a.ReadLock().TryAcquire(writer.Context())
		require.NoError(t, err)
		require.NotEqual(t, reader.Node(), again.Node())
		time.Sleep(time.Second)
		release(t, writer)
		require.ErrorIs(t, context.Cause(writer.Context()), rwlock.ErrReleased)
		require.NoError(t, reader.Context().Err(), "the read lock goes on")
		time.Sleep(time.Minute)
		require.True(t, reader.Valid())
		next.Waits()
		behind.Waits()
		require.Equal(t, writer.FencingToken(), reader.FencingToken())

		inner := acquire(t, reader.Context(), a.ReadLock())
		release(t, inner)
		release(t, reader)
		require.True(t, next.Pending(), "one of two has gone")
		release(t, again)
		second := next.OK()
		require.Greater(t, second.FencingToken(), reader.FencingToken())
		release(t, second)
		release(t, behind.OK())
		clean(t, s)
	})
}

// The write lock and its read lock may be released in any order. A waiting writer is granted only after both.
func TestReadLockReleasedBeforeTheWriteLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := rwlock.New(newClient(t, s), path), rwlock.New(newClient(t, s), path)
		writer := acquire(t, background, a.WriteLock())
		reader := acquire(t, writer.Context(), a.ReadLock())
		next := waiting(t, background, b.WriteLock()) // its list has both nodes, with equal numbers
		release(t, reader)
		next.Waits()
		require.True(t, writer.Valid())
		release(t, writer)
		release(t, next.OK())
		clean(t, s)
	})
}

// Two nodes with equal numbers, in either order in the list: the writer arms its watch on one of them, lists again after its
// event, and waits for the other, too.
func TestEqualsInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb := newClient(t, s), newClient(t, s)
		b := rwlock.New(cb, path)
		for _, guids := range [][2]string{{"0", "f"}, {"f", "0"}} {
			for _, readerFirst := range []bool{true, false} {
				// A write lock and its downgrade, written as Curator for Java writes them from 5.5 on.
				require.NoError(t, s.Create(path, nil))
				write, err := s.CreateNode(path+"/_c_"+guid(guids[0])+"-__WRIT__", nil, zktest.EphemeralSequential,
					session(t, ca))
				require.NoError(t, err)
				read, err := s.CreateNode(path+"/_c_"+guid(guids[1])+"-__READ__"+write[len(write)-10:], nil,
					zktest.Ephemeral, session(t, ca))
				require.NoError(t, err)
				next, reader := waiting(t, background, b.WriteLock()), waiting(t, background, b.ReadLock())
				first, second := write, read
				if readerFirst {
					first, second = read, write
				}
				require.NoError(t, s.Delete(first))
				next.Waits()
				require.NoError(t, s.Delete(second))
				release(t, next.OK())
				release(t, reader.OK())
				clean(t, s)
				require.NoError(t, s.Delete(path))
			}
		}
	})
}

// guid returns a UUID that repeats one digit.
func guid(digit string) string {
	four := strings.Repeat(digit, 4)
	return four + four + "-" + four + "-4" + four[:3] + "-8" + four[:3] + "-" + four + four + four
}

// In Curator for Java up to 5.4 a downgrade's node has a later number of its own. This library, like Java, respects such a node
// at its place in the line.
func TestDowngradeOfAnOldPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb := newClient(t, s), newClient(t, s)
		b := rwlock.New(cb, path)
		require.NoError(t, s.Create(path, nil))
		write, err := s.CreateNode(path+"/_c_"+guid("a")+"-__WRIT__", nil, zktest.EphemeralSequential,
			session(t, ca))
		require.NoError(t, err)
		read, err := s.CreateNode(path+"/_c_"+guid("b")+"-__READ__", nil, zktest.EphemeralSequential,
			session(t, ca))
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(read, "__READ__0000000001"))
		next := waiting(t, background, b.WriteLock())
		require.NoError(t, s.Delete(write))
		next.Waits()
		holders, err := b.Holders(background)
		require.NoError(t, err)
		require.Len(t, holders, 1)
		require.Equal(t, read, holders[0].Path)
		require.NoError(t, s.Delete(read))
		release(t, next.OK())
		clean(t, s)
	})
}

// During a downgrade a writer holds both locks, with two nodes of one number.
func TestTheHoldersDuringADowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := rwlock.New(newClient(t, s), path), rwlock.New(newClient(t, s), path)
		writer := acquire(t, background, a.WriteLock())
		reader := acquire(t, writer.Context(), a.ReadLock())
		later := waiting(t, background, b.ReadLock())
		paths := func() (all []string) {
			holders, err := b.Holders(background)
			require.NoError(t, err)
			for _, h := range holders {
				all = append(all, h.Path)
			}
			return all
		}
		require.ElementsMatch(t, []string{writer.Path(), reader.Path()}, paths())
		release(t, writer)
		shared := later.OK()
		require.ElementsMatch(t, []string{reader.Path(), shared.Path()}, paths())
		release(t, reader)
		release(t, shared)
		clean(t, s)
	})
}

// The context ends after the create of the downgrade's node, and before the grant of the read lock.
func TestADowngradeThatFailsLeavesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		giveUp := func() {}
		client := newClient(t, s, framework.WithHooks(framework.Hooks{
			Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				giveUp()
				time.Sleep(time.Second) // so long that the node must be read again
				return ctx, nil
			},
		}))
		rw := rwlock.New(client, path)
		writer := acquire(t, background, rw.WriteLock())
		ctx, cancel := context.WithCancel(writer.Context())
		giveUp = cancel
		_, err := rw.ReadLock().Acquire(ctx)
		require.ErrorIs(t, err, context.Canceled)
		release(t, writer)
		clean(t, s)
	})
}

// An administrator deletes the write lock's node, and the next writer is granted. The late downgrade must fail.
func TestDowngradeOfALostWriteLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb := newClient(t, s), newClient(t, s)
		a, b := rwlock.New(ca, path), rwlock.New(cb, path)
		writer := acquire(t, background, a.WriteLock()) // so new that no watch on its node is armed yet
		next := waiting(t, background, b.WriteLock())
		require.NoError(t, s.Delete(writer.Path()))
		second := next.OK()
		_, err := a.ReadLock().Acquire(writer.Context())
		require.ErrorIs(t, err, rwlock.ErrNodeDeleted)
		require.ErrorContains(t, err, "the write lock was lost")
		require.ErrorIs(t, context.Cause(writer.Context()), rwlock.ErrNodeDeleted, "so it is known")
		require.ErrorIs(t, writer.Release(background), rwlock.ErrNodeDeleted)
		children, err := s.Children(path)
		require.NoError(t, err)
		require.Equal(t, []string{second.Node()}, children)
		release(t, second)
		clean(t, s)

		// The whole directory is deleted and created again, and a new node gets number 0.
		writer = acquire(t, background, a.WriteLock())
		require.NoError(t, s.DeleteAll(path))
		second = acquire(t, background, b.WriteLock())
		_, err = a.ReadLock().Acquire(context.WithoutCancel(writer.Context()))
		require.Error(t, err)
		require.ErrorIs(t, writer.Release(background), rwlock.ErrNodeDeleted)
		release(t, second)
		clean(t, s)
	})
}

// The reply to the downgrade is lost, several times: the node is neither created twice nor taken for another client's.
func TestReplyToTheDowngradeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s), path)
		for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore} {
			for times := range 3 {
				writer := acquire(t, background, rw.WriteLock())
				fault := s.Inject(zktest.Fault{Op: "multi", Times: times + 1, Action: action})
				reader := acquire(t, writer.Context(), rw.ReadLock())
				require.Equal(t, times+1, fault.Hits())
				fault.Remove()
				children, err := s.Children(path)
				require.NoError(t, err)
				require.ElementsMatch(t, []string{writer.Node(), reader.Node()}, children)
				require.True(t, reader.Valid())
				release(t, writer)
				release(t, reader)
				clean(t, s)
			}
		}
	})
}

// The reply never arrives: there is no read lock, and no node.
func TestDowngradeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		rw := rwlock.New(c, path)
		writer := acquire(t, background, rw.WriteLock())
		fault := s.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.LoseReply})
		_, err := rw.ReadLock().Acquire(writer.Context())
		require.ErrorIs(t, err, framework.ErrConnectionLoss)
		fault.Remove()
		time.Sleep(5 * time.Second)
		require.True(t, writer.Valid())
		children, err := s.Children(path)
		require.NoError(t, err)
		require.Equal(t, []string{writer.Node()}, children)
		release(t, writer)
		clean(t, s)
		require.Zero(t, c.PendingCleanups())
	})
}

// The reply is lost, and the retry is refused: the node created by the first attempt is deleted.
func TestDowngradeWhoseRepeatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s), path)
		writer := acquire(t, background, rw.WriteLock())
		s.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply})
		s.Inject(zktest.Fault{Op: "multi", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		_, err := rw.ReadLock().Acquire(writer.Context())
		require.ErrorIs(t, err, framework.ErrNoAuth)
		synctest.Wait()
		children, err := s.Children(path)
		require.NoError(t, err)
		require.Equal(t, []string{writer.Node()}, children)
		release(t, writer)
		clean(t, s)
	})
}

// Downgrades whose contexts end at random moments, with a slow server, and with the write lock released during the call: no call
// outlives its context, and no node is left.
func TestDowngradeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		rw := rwlock.New(c, path)
		require.NoError(t, s.Create(path, nil)) // so that the server does not delete it during the test
		random := rand.New(rand.NewPCG(1, 1))
		var had, not int
		for range 300 {
			s.Delay(0, 0)
			writer := acquire(t, background, rw.WriteLock())
			s.Delay(0, 3*time.Millisecond)
			limit := time.Duration(random.Int64N(int64(8 * time.Millisecond)))
			ctx, cancel := context.WithTimeout(writer.Context(), limit)
			began := time.Now()
			if random.IntN(2) == 0 {
				go func() {
					time.Sleep(limit / 2)
					assert.NoError(t, writer.Release(background))
				}()
			} else {
				defer func() { assert.ErrorIs(t, writer.Release(background), rwlock.ErrReleased) }()
				context.AfterFunc(ctx, func() { assert.NoError(t, writer.Release(background)) })
			}
			lock, err := rw.ReadLock().Acquire(ctx)
			require.LessOrEqual(t, time.Since(began), limit)
			if err == nil {
				had++
				release(t, lock)
			} else {
				not++
				require.True(t, ctx.Err() != nil)
			}
			cancel()
			time.Sleep(time.Second)
			clean(t, s)
		}
		require.Greater(t, had, 50)
		require.Greater(t, not, 50)
		require.Zero(t, c.PendingCleanups())
	})
}

// If the write lock is released during the downgrade, its node stays until the read lock's exists.
func TestWriteLockReleasedDuringTheDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		rw := rwlock.New(a, path)
		writer := acquire(t, background, rw.WriteLock())
		next := waiting(t, background, rwlock.New(b, path).WriteLock())
		hold := s.Inject(zktest.Fault{Session: session(t, a), Op: "multi", Action: zktest.Hold})
		done := begin(t, writer.Context(), rw.ReadLock())
		<-hold.Struck()
		release(t, writer)
		done.Waits()
		hold.Release()
		reader := done.OK()
		require.True(t, reader.Valid())
		next.Waits()
		require.False(t, s.Exists(writer.Path()))
		release(t, reader)
		release(t, next.OK())
		clean(t, s)
	})
}

func TestExpiryDuringTheDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		for _, policy := range []framework.LossPolicy{framework.SessionOnly, framework.SuspendedIsLoss} {
			rw := rwlock.New(a, path, rwlock.WithLossPolicy(policy))
			writer := acquire(t, background, rw.WriteLock())
			hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.HoldReply})
			done := begin(t, writer.Context(), rw.ReadLock())
			<-hold.Struck()
			s.Expire(session(t, a))
			synctest.Wait()
			time.Sleep(time.Second)
			o := done.End()
			for _, err := range []error{o.Err, writer.Release(background)} {
				// A client that reconnects immediately learns of the session's end at the same instant.
				if policy == framework.SuspendedIsLoss && errors.Is(err, rwlock.ErrSuspended) {
					continue
				}
				require.ErrorIs(t, err, rwlock.ErrSessionLost)
			}
			hold.Remove()
			hold.Release()
			time.Sleep(time.Second)
			clean(t, s)
		}
	})
}

// With framework.SuspendedIsLoss both locks are lost, and both nodes are deleted by their releases.
func TestBothLocksSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		rw := rwlock.New(a, path, rwlock.WithLossPolicy(framework.SuspendedIsLoss))
		writer := acquire(t, background, rw.WriteLock())
		reader := acquire(t, writer.Context(), rw.ReadLock())
		s.Cut(session(t, a))
		time.Sleep(3 * time.Second)
		for _, lock := range []*rwlock.Lock{writer, reader} {
			require.False(t, lock.Valid())
			require.ErrorIs(t, lock.Release(background), rwlock.ErrSuspended)
		}
		clean(t, s)
	})
}

// If an administrator deletes one of the two nodes, that lock is lost and the other is not.
func TestAdministratorDeletesOneOfTheTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s), path)
		for i := range 2 {
			writer := acquire(t, background, rw.WriteLock())
			reader := acquire(t, writer.Context(), rw.ReadLock())
			time.Sleep(time.Second)
			lost, kept := writer, reader
			if i == 1 {
				lost, kept = reader, writer
			}
			require.NoError(t, s.Delete(lost.Path()))
			<-lost.Context().Done()
			require.ErrorIs(t, lost.Release(background), rwlock.ErrNodeDeleted)
			require.True(t, kept.Valid())
			release(t, kept)
			clean(t, s)
		}
	})
}
