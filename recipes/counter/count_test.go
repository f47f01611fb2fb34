package counter_test

import (
	"context"
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

func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		count := counter.NewCount(c, path)
		_, err := count.Get(background)
		require.ErrorIs(t, err, framework.ErrNoNode)

		// The bytes are Curator's SharedCount's.
		for n, data := range map[int32]string{7: "\x00\x00\x00\x07", -2: "\xff\xff\xff\xfe",
			1 << 30: "\x40\x00\x00\x00"} {
			require.NoError(t, count.Set(background, n))
			node := s.Tree()[path]
			require.Equal(t, data, string(node.Data))
			require.Equal(t, zktest.Persistent, node.Mode)
			seen, err := count.Get(background)
			require.NoError(t, err)
			require.Equal(t, counter.Seen[int32]{N: n, Version: node.Stat.Version, Mzxid: node.Stat.Mzxid,
				Changed: time.UnixMilli(node.Stat.Mtime)}, seen)
		}
		require.Equal(t, zktest.Container, s.Tree()["/counters"].Mode)

		seen, err := count.Get(background)
		require.NoError(t, err)
		now, err := count.CompareAndSet(background, seen, 5)
		require.NoError(t, err)
		require.Equal(t, seen.Version+1, now.Version)
		again, err := count.Get(background)
		require.NoError(t, err)
		require.Equal(t, again, now)
		_, err = count.CompareAndSet(background, seen, 6)
		require.ErrorIs(t, err, framework.ErrBadVersion)
		_, err = count.CompareAndSet(background, counter.Seen[int32]{Version: -1}, 6)
		require.ErrorIs(t, err, framework.ErrBadArguments)

		for _, data := range []string{"", "7", "\x00\x00\x01"} {
			require.NoError(t, s.Set(path, []byte(data)))
			_, err = count.Get(background)
			require.ErrorIs(t, err, counter.ErrBadValue)
		}
		require.NoError(t, s.Set(path, []byte("\x00\x00\x00\x03rest")))
		seen, err = count.Get(background)
		require.NoError(t, err)
		require.EqualValues(t, 3, seen.N, "as Curator reads it")

		_, err = counter.NewCount(c, "n").Get(background)
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		require.Error(t, counter.NewCount(nil, path).Set(background, 1))
		tidy(t, s)
	})
}

// A Seen value belongs to one node. If that node was deleted and created again, CompareAndSet fails, also with the same version;
// so it does for a value that was never read.
func TestCountIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		count := counter.NewCount(newClient(t, s), path)
		first, err := count.CreateIfMissing(background, 5)
		require.NoError(t, err)
		require.EqualValues(t, 5, first.N)
		require.Zero(t, first.Version)

		require.NoError(t, s.Delete(path))
		_, err = count.CompareAndSet(background, first, 6)
		require.ErrorIs(t, err, framework.ErrNoNode)
		require.NoError(t, s.Create(path, []byte{0, 0, 0, 9}))
		_, err = count.CompareAndSet(background, first, 6)
		require.ErrorIs(t, err, framework.ErrBadVersion)
		_, err = count.CompareAndSet(background, counter.Seen[int32]{}, 6)
		require.ErrorIs(t, err, framework.ErrBadVersion)
		_, err = count.CompareAndSet(background, counter.Seen[int32]{N: 9}, 6)
		require.ErrorIs(t, err, framework.ErrBadVersion)

		now, err := count.CreateIfMissing(background, 6)
		require.NoError(t, err)
		require.EqualValues(t, 9, now.N, "it is not missing")
		s.ResetCounts()
		now, err = count.CompareAndSet(background, now, 10)
		require.NoError(t, err)
		require.EqualValues(t, 10, now.N)
		recipetest.Counts(t, s, "compare and set", map[string]int{"sync": 1, "exists": 1, "create2": 1, "multi": 1})

		var none context.Context
		_, err = count.CreateIfMissing(none, 1)
		require.ErrorIs(t, err, framework.ErrNilContext)
		_, err = count.CompareAndSet(none, now, 1)
		require.ErrorIs(t, err, framework.ErrNilContext)
		require.NoError(t, s.Set(path, []byte("x")))
		_, err = count.CreateIfMissing(background, 1)
		require.ErrorIs(t, err, counter.ErrBadValue)
	})
}

// Many clients create the count at the same time. All get the number of the one that succeeds, even if the reply to the create is
// lost.
func TestCountIsCreatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		got := make(chan int32, 10)
		s.Inject(zktest.Fault{Op: "create2", PathPrefix: path, Action: zktest.LoseReply, Times: 2})
		for i := range cap(got) {
			count := counter.NewCount(newClient(t, s), path)
			go func() {
				v, err := count.CreateIfMissing(background, int32(i+1))
				assert.NoError(t, err)
				got <- v.N
			}()
		}
		first := <-got
		for range cap(got) - 1 {
			require.Equal(t, first, <-got)
		}
		require.Equal(t, []byte{0, 0, 0, byte(first)}, s.Tree()[path].Data)
	})
}

func TestCountWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		count := counter.NewCount(c, path)
		set := counter.NewCount(newClient(t, s), path)
		type step struct {
			n   int32
			err error
		}
		steps := make(chan step, 10)
		ctx, cancel := context.WithCancel(background)
		go func() {
			defer close(steps)
			for v, err := range count.Watch(ctx) {
				steps <- step{v.N, err}
			}
		}()
		require.True(t, recipetest.Pending(steps), "there is no node yet")
		require.NoError(t, set.Set(background, 1))
		require.Equal(t, step{1, nil}, <-steps)
		require.NoError(t, set.Set(background, 2))
		require.Equal(t, step{2, nil}, <-steps)
		require.NoError(t, s.Delete(path))
		require.True(t, recipetest.Pending(steps))
		require.NoError(t, set.Set(background, 2))
		require.Equal(t, step{2, nil}, <-steps, "made anew is a change")

		require.NoError(t, s.Set(path, []byte("x")))
		require.ErrorIs(t, (<-steps).err, counter.ErrBadValue)
		require.NoError(t, set.Set(background, 3))
		require.Equal(t, step{3, nil}, <-steps)

		s.Cut(0)
		time.Sleep(5 * time.Second)
		require.True(t, recipetest.Pending(steps), "a reconnect is no change")
		s.Expire(session(t, c))
		time.Sleep(5 * time.Second)
		require.True(t, recipetest.Pending(steps), "a new session neither")
		s.Stop()
		time.Sleep(10 * time.Minute)
		require.NoError(t, s.Start())
		require.NoError(t, s.Set(path, []byte{0, 0, 0, 4}))
		require.Equal(t, step{4, nil}, <-steps)

		require.Len(t, s.Watches(), 1)
		cancel()
		last := <-steps
		require.ErrorIs(t, last.err, context.Canceled)
		_, more := <-steps
		require.False(t, more)
		synctest.Wait()
		require.Empty(t, s.Watches())

		for v, err := range count.Watch(background) {
			require.NoError(t, err)
			require.EqualValues(t, 4, v.N)
			break
		}
		synctest.Wait()
		require.Empty(t, s.Watches(), "leaving the loop removes the watch")
		var none context.Context
		for _, err := range count.Watch(none) {
			require.ErrorIs(t, err, framework.ErrNilContext)
		}
	})
}

// A newer server sends no event of a node that the client may not read, so Watch misses the change. It reads the count again
// after about a session timeout, with one read, and sends nothing else while nothing changes.
func TestCountWatchWithoutTheEvent(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V38, zktest.V39, zktest.V37} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{Profile: profile})
			count := counter.NewCount(newClient(t, s), path)
			require.NoError(t, count.Set(background, 1))
			ctx, cancel := context.WithCancel(background)
			seen, done := make(chan int32, 10), make(chan error, 1)
			go func() {
				for v, err := range count.Watch(ctx) {
					if err != nil {
						done <- err
						return
					}
					seen <- v.N
				}
			}()
			require.EqualValues(t, 1, <-seen)
			acl := s.Tree()[path].ACL
			s.Delay(0, time.Millisecond) // if 3.8 does send the event, it arrives when the rights are back
			for n := range int32(3) {    // the watch is armed again, too
				require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}))
				require.NoError(t, s.Set(path, []byte{0, 0, 0, byte(n) + 2}))
				require.NoError(t, s.SetACL(path, acl...))
				select {
				case got := <-seen:
					require.Equal(t, n+2, got)
				case <-time.After(13 * time.Second):
					require.Fail(t, "not seen after 5/4 of the session timeout")
				}
			}
			s.Delay(0, 0)
			require.NoError(t, s.Set(path, []byte{0, 0, 0, 9}))
			require.False(t, recipetest.Pending(seen), "an event that comes is not waited for")
			<-seen
			s.ResetCounts()
			time.Sleep(time.Minute)
			require.True(t, recipetest.Pending(seen))
			counts := s.Counts()
			require.InDelta(t, 6, counts["getData"], 2)
			require.Equal(t, counts["getData"], recipetest.Sum(counts), "%v", counts)
			require.Len(t, s.Watches(), 1)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			tidy(t, s)
		})
	}
}

// The node is created after the read that found none, and before the watch on its create is armed.
func TestCountWatchOfACountThatAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		n := counter.NewCount(newClient(t, s), path)
		armed := s.Inject(zktest.Fault{Op: "exists", PathPrefix: path, Action: zktest.Hold})
		first := recipetest.Begin(t, func() (seen counter.Seen[int32], err error) {
			for seen, err = range n.Watch(background) {
				break
			}
			return seen, err
		})
		<-armed.Struck()
		require.NoError(t, s.Create(path, []byte{0, 0, 0, 7}))
		armed.Release()
		require.EqualValues(t, 7, first.OK().N)
	})
}
