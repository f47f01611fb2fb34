package counter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// short returns a View in a few words.
func short(v counter.View[int32], err error) string {
	switch {
	case err != nil:
		return err.Error()
	case v.Missing:
		return fmt.Sprintf("none, current %v, %v", v.Current, v.State.State)
	case v.Bad != nil:
		return fmt.Sprintf("bad, version %d, current %v, %v", v.Version, v.Current, v.State.State)
	}
	return fmt.Sprintf("%d, current %v, %v", v.N, v.Current, v.State.State)
}

// followed returns the Views of a loop that starts now.
func followed(ctx context.Context, count *counter.Count) <-chan string {
	views := make(chan string, 100)
	go func() {
		defer close(views)
		for v, err := range count.Follow(ctx) {
			views <- short(v, err)
		}
	}()
	return views
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		count := counter.NewCount(newClient(t, s), path)
		ctx, cancel := context.WithCancel(background)
		views := followed(ctx, counter.NewCount(c, path))
		next := func(want ...string) {
			t.Helper()
			for _, want := range want {
				select {
				case got := <-views:
					require.Equal(t, want, got)
				case <-time.After(time.Hour):
					require.Fail(t, "nothing came instead of "+want)
				}
			}
			require.True(t, recipetest.Pending(views))
		}
		next("none, current true, Connected")
		require.NoError(t, count.Set(background, 1))
		next("1, current true, Connected")
		require.NoError(t, count.Set(background, 1))
		next("1, current true, Connected") // setting the same number is a change
		require.NoError(t, s.Set(path, []byte("x")))
		next("bad, version 2, current true, Connected")
		require.NoError(t, s.Delete(path))
		next("none, current true, Connected")
		require.NoError(t, count.Set(background, 2))
		next("2, current true, Connected")
		time.Sleep(time.Minute)
		require.True(t, recipetest.Pending(views), "looking now and then is no change")

		// While the client is disconnected its number may be outdated. After the state, the loop yields the current one.
		recipetest.Cut(t, s, c)
		next("2, current false, Suspended", "2, current false, Reconnected", "2, current true, Reconnected")
		id := session(t, c)
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		s.Cut(id)
		next("2, current false, Suspended")
		require.NoError(t, count.Set(background, 3))
		away.Release()
		for got := range views { // the change may be read before the state is reported, and is not current until then
			if got == "3, current true, Reconnected" {
				break
			}
			require.Contains(t, got, "current false")
		}
		s.Expire(id)
		next("3, current false, Suspended", "3, current false, Lost", "3, current false, Reconnected",
			"3, current true, Reconnected")
		require.NoError(t, count.Set(background, 4))
		next("4, current true, Reconnected")

		require.Len(t, s.Watches(), 1)
		cancel()
		require.Contains(t, <-views, context.Canceled.Error())
		_, more := <-views
		require.False(t, more)
		tidy(t, s, c)
	})
}

// The servers are too slow for many reads in a row. When a read fails later, the next comes soon.
func TestFollowReadsSoonAfterALaterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		count := counter.NewCount(newClient(t, s), path)
		require.NoError(t, count.Set(background, 1))
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		views := followed(ctx, counter.NewCount(c, path))
		require.Equal(t, "1, current true, Connected", <-views)
		for n, failures := range []int{20, 1, 1} {
			failed := s.Inject(zktest.Fault{
				Session: session(t, c), Op: zktest.OpGetData, Action: zktest.ReplyError, Err: zktest.ErrOperationTimeout, Times: failures,
			})
			require.NoError(t, count.Set(background, int32(n+2)))
			began := time.Now()
			require.Equal(t, fmt.Sprintf("%d, current true, Connected", n+2), <-views)
			require.Equal(t, failures, failed.Hits())
			require.Equal(t, failures == 1, time.Since(began) <= 20*time.Millisecond, "%v", time.Since(began))
		}
	})
}

// A slow loop over Follow gets all numbers that were read; over Watch it gets the last.
func TestFollowAndWatchWhenTheLoopIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		count := counter.NewCount(newClient(t, s), path)
		require.NoError(t, count.Set(background, 0))
		var all, latest []int32
		followed := recipetest.Begin(t, func() (int, error) {
			for v, err := range counter.NewCount(c, path).Follow(background) {
				if err != nil {
					return 0, err
				}
				if all = append(all, v.N); v.N == 5 {
					break
				}
				time.Sleep(time.Second)
			}
			return 0, nil
		})
		watched := recipetest.Begin(t, func() (int, error) {
			for v, err := range counter.NewCount(c, path).Watch(background) {
				if err != nil {
					return 0, err
				}
				if latest = append(latest, v.N); v.N == 5 {
					break
				}
				time.Sleep(time.Second)
			}
			return 0, nil
		})
		for n := range int32(5) {
			synctest.Wait()
			require.NoError(t, count.Set(background, n+1))
		}
		followed.End().OK()
		watched.End().OK()
		require.Equal(t, []int32{0, 1, 2, 3, 4, 5}, all)
		require.Equal(t, []int32{0, 5}, latest)
		tidy(t, s, c)
	})
}

func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		views := followed(background, counter.NewCount(c, path))
		require.Equal(t, "none, current true, Connected", <-views)
		require.NoError(t, c.Close())
		last := ""
		for v := range views {
			last = v
		}
		require.Contains(t, last, framework.ErrClosed.Error())
		for _, err := range counter.NewCount(c, path).Follow(background) {
			require.ErrorIs(t, err, framework.ErrClosed)
		}

		c = newClient(t, s)
		n := counter.NewLong(c, path)
		require.NoError(t, n.Set(background, 1))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 30, Scheme: "world", ID: "anyone"}))
		for _, err := range n.Follow(background) {
			require.ErrorIs(t, err, framework.ErrNoAuth)
		}
		view, err := c.Session(background)
		require.NoError(t, err)
		views = followed(background, counter.NewCount(view.Client(), "/other"))
		require.Equal(t, "none, current true, Connected", <-views)
		s.Expire(view.ID())
		last = ""
		for v := range views {
			last = v
		}
		require.Contains(t, last, framework.ErrSessionLost.Error())
		tidy(t, s)
	})
}
