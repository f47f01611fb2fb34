package counter_test

import (
	"context"
	"errors"
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

type limits struct{ Reads, Writes int }

func TestValueUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const each = 25
		more := func(l limits) (limits, error) { l.Reads++; l.Writes--; return l, nil }
		v := counter.NewValue(newClient(t, s), path, counter.JSON[limits]())
		_, err := v.Update(background, more)
		require.ErrorIs(t, err, framework.ErrNoNode)
		_, err = v.CreateIfMissing(background, limits{Reads: 1})
		require.NoError(t, err)
		require.Equal(t, `{"Reads":1,"Writes":0}`, string(s.Tree()[path].Data))
		s.Delay(0, time.Millisecond)
		var wg sync.WaitGroup
		for range 4 {
			v := counter.NewValue(newClient(t, s), path, counter.JSON[limits]())
			wg.Go(func() {
				for range each {
					_, err := v.Update(background, more)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		seen, err := v.Get(background)
		require.NoError(t, err)
		require.Equal(t, limits{1 + 4*each, -4 * each}, seen.N)

		stop := errors.New("stop")
		_, err = v.Update(background, func(limits) (limits, error) { return limits{}, stop })
		require.ErrorIs(t, err, stop)
		_, err = v.Update(background, nil)
		require.ErrorIs(t, err, framework.ErrBadArguments)
		same, err := v.Get(background)
		require.NoError(t, err)
		require.Equal(t, seen, same)
		tidy(t, s)
	})
}

// Valid and invalid data of a value.
func TestValueCodec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithDefaultData([]byte("default")))
		bytes := counter.NewValue(c, path, counter.Bytes())
		require.NoError(t, bytes.Set(background, nil))
		require.Empty(t, s.Tree()[path].Data)
		require.NoError(t, bytes.Set(background, []byte("text")))
		seen, err := bytes.Get(background)
		require.NoError(t, err)
		require.Equal(t, "text", string(seen.N))
		seen, err = bytes.CompareAndSet(background, seen, nil)
		require.NoError(t, err)
		require.Empty(t, s.Tree()[path].Data)
		require.Empty(t, s.Tree()[path+"/"+marks(t, s)[0]].Data)

		_, err = counter.NewValue(c, path, counter.JSON[limits]()).Get(background)
		require.ErrorIs(t, err, counter.ErrBadValue)
		err = counter.NewValue(c, path, counter.JSON[chan int]()).Set(background, make(chan int))
		require.ErrorIs(t, err, framework.ErrBadArguments)
		_, err = counter.NewValue(c, path, counter.Codec[int]{}).Get(background)
		require.ErrorIs(t, err, framework.ErrBadArguments)
		for _, wrong := range []*counter.Count{nil, {}} {
			_, err = wrong.Get(background)
			require.ErrorIs(t, err, framework.ErrNoClient)
			require.Empty(t, wrong.Path())
			for _, err := range wrong.Watch(background) {
				require.ErrorIs(t, err, framework.ErrNoClient)
			}
			for _, err := range wrong.Follow(background) {
				require.ErrorIs(t, err, framework.ErrNoClient)
			}
		}
		_, err = (&counter.Count{}).Get(background)
		require.True(t, strings.HasPrefix(err.Error(), "counter: get: "), "%v", err)
		tidy(t, s)
	})
}

// Two clients set the same new value from the same old one: exactly one succeeds, even if its reply was lost and the other wrote
// before or after it.
func TestCompareAndSetAndALostReply(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		for _, marked := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				v, other := counter.NewCount(c, path), counter.NewCount(newClient(t, s), path)
				seen, err := v.CreateIfMissing(background, 1)
				require.NoError(t, err)
				if marked {
					seen, err = v.CompareAndSet(background, seen, 1)
					require.NoError(t, err)
				}
				s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: action})
				away := s.Inject(zktest.Fault{Session: session(t, c), Op: "connect", Action: zktest.Hold})
				call := recipetest.Begin(t, func() (counter.Seen[int32], error) {
					return v.CompareAndSet(background, seen, 2)
				})
				<-away.Struck()
				theirs, theirErr := other.CompareAndSet(background, seen, 2)
				away.Release()
				call.End()
				if action == zktest.CutBefore {
					require.NoError(t, theirErr)
					require.ErrorIs(t, call.Err, framework.ErrBadVersion)
					require.NotErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
				} else {
					require.ErrorIs(t, theirErr, framework.ErrBadVersion)
					require.NoError(t, call.Err)
					theirs = call.Value
				}
				now, err := v.Get(background)
				require.NoError(t, err)
				require.Equal(t, now, theirs, "with its Stat")
				tidy(t, s, c)
			})
		}
	}
}

// The first try is lost with its connection, the session expires, and another client sets another value: the next try finds that
// the first was not executed.
func TestCompareAndSetAfterALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		v := counter.NewCount(c, path)
		seen, err := v.CreateIfMissing(background, 1)
		require.NoError(t, err)
		s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.CutBefore})
		away := s.Inject(zktest.Fault{Session: session(t, c), Op: "connect", Action: zktest.Hold})
		call := recipetest.Begin(t, func() (counter.Seen[int32], error) { return v.CompareAndSet(background, seen, 2) })
		<-away.Struck()
		require.NoError(t, s.Set(path, []byte{0, 0, 0, 3}))
		s.Expire(session(t, c))
		away.Release()
		err = call.End().Err
		require.ErrorIs(t, err, framework.ErrBadVersion)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
	})
}

// An administrator has deleted this client's mark next to the value: that does not count as a change of the value.
func TestCompareAndSetWithoutItsMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		v := counter.NewCount(newClient(t, s), path)
		seen, err := v.CreateIfMissing(background, 1)
		require.NoError(t, err)
		for n := range int32(3) {
			seen, err = v.CompareAndSet(background, seen, n)
			require.NoError(t, err)
			require.NoError(t, s.Delete(path+"/"+marks(t, s)[0]))
		}
		require.NoError(t, s.DeleteAll(path))
		_, err = v.CompareAndSet(background, seen, 9)
		require.ErrorIs(t, err, framework.ErrNoNode)
		tidy(t, s)
	})
}

// No call outlives its context, even if the server hangs, and nothing is left.
func TestValueWhileTheServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		n := counter.NewLong(c, path)
		seen, err := n.CreateIfMissing(background, 1)
		require.NoError(t, err)
		ids := counter.NewIDs(n, 10)
		recipetest.CancelWhileTheServerHangs(t, s, nil,
			func(ctx context.Context) error { _, err := n.Get(ctx); return err },
			func(ctx context.Context) error { return n.Set(ctx, 1) },
			func(ctx context.Context) error { _, err := n.CreateIfMissing(ctx, 1); return err },
			func(ctx context.Context) error { _, err := n.CompareAndSet(ctx, seen, 1); return err },
			func(ctx context.Context) error {
				_, err := n.Update(ctx, func(n int64) (int64, error) { return n, nil })
				return err
			},
			func(ctx context.Context) error { _, err := n.Add(ctx, 1); return err },
			func(ctx context.Context) error { _, err := ids.Next(ctx); return err },
			func(ctx context.Context) (err error) {
				for _, err = range n.Watch(ctx) {
				}
				return err
			},
			func(ctx context.Context) (err error) {
				for _, err = range n.Follow(ctx) {
				}
				return err
			})
		tidy(t, s, c)
	})
}

// A client with WithCompression reads compressed and uncompressed values, and writes compressed ones.
func TestValuesOfClientsThatCompress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		packs, plain := newClient(t, s, framework.WithCompression()), newClient(t, s)
		long := counter.NewLong(packs, path)
		_, err := counter.NewLong(plain, path).Add(background, 5)
		require.NoError(t, err)
		got, err := long.Get(background)
		require.NoError(t, err)
		require.EqualValues(t, 5, got.N)
		_, err = long.Add(background, 2)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(s.Tree()[path].Data), "\x1f\x8b"))
		got, err = long.Get(background)
		require.NoError(t, err)
		require.EqualValues(t, 7, got.N)
	})
}
