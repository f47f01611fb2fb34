package line_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// No recipe creates its nodes in the root, nor in a chroot's: that directory has all other nodes, too. In a namespace the root is
// the namespace's node.
func TestNoRecipeAtTheRoot(t *testing.T) {
	bg := context.Background()
	idle := func(context.Context) error { return nil }
	for name, use := range map[string]func(*framework.Client) error{
		"mutex":           func(c *framework.Client) error { return inMutex(bg, c, "/", idle) },
		"read lock":       func(c *framework.Client) error { return inRead(bg, c, "/", idle) },
		"write lock":      func(c *framework.Client) error { return inWrite(bg, c, "/", idle) },
		"semaphore":       func(c *framework.Client) error { return inOneOf3(bg, c, "/", idle) },
		"semaphore mutex": func(c *framework.Client) error { return inOneOf1(bg, c, "/", idle) },
		"selector":        func(c *framework.Client) error { return inTerm(bg, c, "/", idle) },
		"count":           func(c *framework.Client) error { return semaphore.NewCount(c, "/").Set(bg, 1) },
		"shared count": func(c *framework.Client) error {
			_, _, err := semaphore.New(c, "/semaphore", 1, semaphore.WithSharedCount("/")).Usage(bg)
			return err
		},
		"barrier": func(c *framework.Client) error { return barrier.New(c, "/").Set(bg) },
		"double barrier": func(c *framework.Client) error {
			m, err := barrier.NewDouble(c, "/", 1).Enter(bg)
			if err == nil {
				err = m.Leave(bg)
			}
			return err
		},
		"participants": func(c *framework.Client) error { return second(mutex.New(c, "/").Participants(bg)) },
		"holders":      func(c *framework.Client) error { return second(rwlock.New(c, "/").Holders(bg)) },
		"latch": func(c *framework.Client) error {
			l, err := leader.NewLatch(c, "/")
			if err == nil {
				err = l.Close()
			}
			return err
		},
		"observer": func(c *framework.Client) error {
			for _, err := range leader.Observe(bg, c, "/") {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create("/app", nil))
				in, err := framework.New(s.Addr()+"/app", framework.WithDialer(s.Dial))
				require.NoError(t, err)
				defer in.Close()
				require.NoError(t, in.WaitConnected(bg))
				c := recipetest.Client(t, s)
				before := s.Tree()
				for _, client := range []*framework.Client{c, in} {
					err := use(client)
					require.ErrorIs(t, err, framework.ErrInvalidPath)
					require.ErrorContains(t, err, "needs a node of its own")
				}
				require.Equal(t, before, s.Tree())
				err = use(c.UsingNamespace("team/app"))
				if name == "shared count" { // the node of a namespace has no number in it
					require.NotErrorIs(t, err, framework.ErrInvalidPath)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

// A call returns immediately if its context has ended, or if its arguments are wrong.
func TestCallsThatMustNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recipetest.Client(t, zktest.RunT(t))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, line.CheckCall(t.Context(), c, nil))
		require.ErrorIs(t, line.CheckCall(ended, c, nil), context.Canceled)
		require.ErrorIs(t, line.CheckCall(ended, c, framework.ErrInvalidPath), framework.ErrInvalidPath)
		require.EqualError(t, line.WrapError("mutex", "", "acquire", context.Canceled), "mutex: acquire: context canceled")
		require.EqualError(t, line.WrapError("mutex", "/m", "acquire", context.Canceled), "mutex /m: acquire: context canceled")

		starts := func(with string) func(string) bool {
			return func(name string) bool { return strings.HasPrefix(name, with) }
		}
		_, err := line.AddForeign(starts("a"), nil)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		foreign, err := line.AddForeign(nil, starts("a"))
		require.NoError(t, err)
		both, err := line.AddForeign(foreign, starts("b"))
		require.NoError(t, err)
		for name, want := range map[string][2]bool{"a": {true, true}, "b": {false, true}, "c": {false, false}} {
			require.Equal(t, want, [2]bool{foreign(name), both(name)})
		}
	})
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }
