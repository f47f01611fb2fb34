package group_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/members"

var background = context.Background()

func join(t *testing.T, c *framework.Client, id string) *group.Member {
	t.Helper()
	m, err := group.Join(c, path, id, []byte("at "+id))
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	require.NoError(t, m.Joined(background))
	return m
}

// ids returns the members, and whether they are current.
func ids(g *group.Group) string {
	synctest.Wait()
	members, current := g.Members()
	var all []string
	for _, m := range members {
		all = append(all, m.ID+"="+string(m.Data))
	}
	return fmt.Sprint(strings.Join(all, " "), " ", current)
}

// follow returns a function that returns the group's events so far, as text.
func follow(t *testing.T, g *group.Group) (told func() string) {
	ctx, cancel := context.WithCancel(background)
	all := make(chan string, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event, err := range g.Follow(ctx) {
			if err != nil {
				all <- "END"
				return
			}
			all <- event.String()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() string {
		synctest.Wait()
		var text []string
		for len(all) > 0 {
			text = append(text, <-all)
		}
		return strings.Join(text, ", ")
	}
}

func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := join(t, recipetest.Client(t, s), "a")
		_, err := a.WaitFor(background, 1)
		require.NoError(t, err)
		told := follow(t, a.Group)
		assert.Equal(t, "a joined, current", told())
		b := join(t, recipetest.Client(t, s), "b")
		assert.Equal(t, "a=at a b=at b true", ids(a.Group))
		assert.Equal(t, "a=at a b=at b true", ids(b.Group))
		assert.Equal(t, "b joined", told())
		require.NoError(t, a.SetData(background, []byte("x")))
		assert.Equal(t, "a changed", told())
		assert.Equal(t, "a=x b=at b true", ids(b.Group))
		require.NoError(t, b.Leave(background))
		assert.Equal(t, "b left", told())
		assert.Equal(t, "a=x true", ids(a.Group))
		require.NoError(t, s.Delete(path+"/a"))
		synctest.Wait()
		assert.Equal(t, "a left, a joined", told())
		assert.Equal(t, "a", a.ID())
		assert.Equal(t, node.There, a.Status().State)
		require.NoError(t, a.Leave(background))
		assert.Equal(t, "END", lastOf(told()))
		recipetest.Clean(t, s, path)
	})
}

func lastOf(text string) string { return text[strings.LastIndex(text, " ")+1:] }

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		g, err := group.Watch(c, path)
		require.NoError(t, err)
		defer g.Close()
		nobody, err := g.WaitFor(background, 0)
		require.NoError(t, err)
		assert.Empty(t, nobody)
		three := recipetest.Begin(t, func() ([]group.Info, error) { return g.WaitFor(background, 3) })
		for _, id := range []string{"a", "b"} {
			join(t, recipetest.Client(t, s), id)
			three.Waits()
		}
		join(t, recipetest.Client(t, s), "c")
		members := three.OK()
		assert.Len(t, members, 3)
		assert.Equal(t, "c", members[2].ID)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = g.WaitFor(ctx, 4)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		waits := recipetest.Begin(t, func() ([]group.Info, error) { return g.WaitFor(background, 4) }).Waits()
		require.NoError(t, g.Close())
		_, err = waits.Returned()
		require.ErrorIs(t, err, cache.ErrClosed)
		_, current := g.Members()
		assert.False(t, current)
	})
}

// Changes while the client is disconnected are reported after its reconnect, and the members are current only then.
func TestAcrossAnOutage(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for _, profile := range []zktest.Profile{zktest.V39, zktest.V35} {
			t.Run(fmt.Sprint(lose, profile), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t, zktest.Config{Profile: profile})
					c := recipetest.Client(t, s)
					g, err := group.Watch(c, path)
					require.NoError(t, err)
					defer g.Close()
					a, b := join(t, recipetest.Client(t, s), "a"), join(t, recipetest.Client(t, s), "b")
					join(t, recipetest.Client(t, s), "c")
					_, err = g.WaitFor(background, 3)
					require.NoError(t, err)
					told := follow(t, g)
					assert.Equal(t, "a joined, b joined, c joined, current", told())
					states := c.StateChanges(t.Context())
					<-states
					for range 30 {
						id := recipetest.Session(t, c)
						away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
						s.Cut(id)
						<-away.Struck()
						assert.Equal(t, "outdated", told())
						require.NoError(t, a.SetData(background, []byte("at a")))
						require.NoError(t, b.Leave(background))
						d := join(t, recipetest.Client(t, s), "d")
						require.NoError(t, s.Delete(path+"/c")) // its member joins again
						waits := recipetest.Begin(t, func() ([]group.Info, error) { return g.WaitFor(background, 2) }).Waits()
						assert.Equal(t, "a=at a b=at b c=at c false", ids(g))
						assert.Empty(t, told())
						if lose {
							s.Expire(id)
						}
						away.Release()
						for (<-states).State != framework.Reconnected {
						}
						// After the client has reported the connection, Members does not return the earlier members as current.
						if members, current := g.Members(); current {
							require.Len(t, members, 3)
							require.Equal(t, "d", members[1].ID)
						}
						assert.Len(t, waits.End().OK(), 3)
						assert.Equal(t, "a=at a d=at d c=at c true", ids(g))
						assert.Equal(t, "b left, c left, d joined, c joined, a changed, current", told())
						require.NoError(t, d.Leave(background))
						b = join(t, recipetest.Client(t, s), "b")
						require.NoError(t, s.Delete(path+"/c"))
						synctest.Wait()
						told()
					}
				})
			})
		}
	}
}

// The connection is lost and restored, and no member changes: an event reports that the members are current again.
func TestAnOutageWithoutChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		g, err := group.Watch(c, path)
		require.NoError(t, err)
		defer g.Close()
		join(t, recipetest.Client(t, s), "a")
		_, err = g.WaitFor(background, 1)
		require.NoError(t, err)
		told := follow(t, g)
		assert.Equal(t, "a joined, current", told())
		for range 3 {
			id := recipetest.Session(t, c)
			away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
			s.Cut(id)
			<-away.Struck()
			assert.Equal(t, "outdated", told())
			away.Release()
			assert.Equal(t, "current", told())
		}
	})
}

// A member whose session expires is removed when the servers delete its node, and joins again in its next session.
func TestMemberLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		g, err := group.Watch(recipetest.Client(t, s), path)
		require.NoError(t, err)
		defer g.Close()
		c := recipetest.Client(t, s)
		a := join(t, c, "a")
		_, err = g.WaitFor(background, 1)
		require.NoError(t, err)
		told := follow(t, g)
		told()
		before, _ := g.Members()
		s.Expire(recipetest.Session(t, c))
		require.NoError(t, c.WaitConnected(background))
		time.Sleep(time.Second)
		require.NoError(t, a.Joined(background))
		assert.Equal(t, "a left, a joined", told())
		after, _ := g.Members()
		assert.NotEqual(t, before[0].SessionID, after[0].SessionID)
		assert.Greater(t, after[0].Czxid, before[0].Czxid)
	})
}

// With a take-over option the node of a process that was killed is replaced.
func TestJoinInTheRoomOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		first := join(t, recipetest.Client(t, s), "a")
		next, err := group.Join(recipetest.Client(t, s), path, "a", nil)
		require.NoError(t, err)
		defer next.Close()
		synctest.Wait()
		assert.Equal(t, node.Missing, next.Status().State)
		over, err := group.Join(recipetest.Client(t, s), path, "a", []byte("new"), node.WithTakeover(node.AtStart))
		require.NoError(t, err)
		defer over.Close()
		require.NoError(t, over.Joined(background))
		assert.Equal(t, "a=new true", ids(first.Group))
		for _, m := range []*group.Member{next, over, first} {
			require.NoError(t, m.Leave(background))
		}
		recipetest.Clean(t, s, path)
	})
}

func TestNoAuthAndLargeData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		require.NoError(t, s.Create(path, nil))
		_, err := s.CreateNode(path+"/large", make([]byte, framework.ContenderDataLimit+1), zktest.Ephemeral,
			recipetest.Session(t, c))
		require.NoError(t, err)
		g, err := group.Watch(c, path)
		require.NoError(t, err)
		defer g.Close()
		members, err := g.WaitFor(background, 1)
		require.NoError(t, err)
		require.ErrorIs(t, members[0].DataErr, framework.ErrDataTooLarge)

		// A member that the client may not read is left out; the others are current nevertheless.
		_, err = s.CreateNode(path+"/hidden", nil, zktest.Ephemeral, recipetest.Session(t, c))
		require.NoError(t, err)
		require.NoError(t, s.SetACL(path+"/hidden", zktest.ACL{Perms: 4, Scheme: "world", ID: "anyone"}))
		apart, err := group.Watch(recipetest.Client(t, s), path)
		require.NoError(t, err)
		defer apart.Close()
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		members, err = apart.WaitFor(ctx, 1)
		require.NoError(t, err)
		require.Equal(t, "large", members[0].ID)
		require.NoError(t, s.Delete(path+"/hidden"))

		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 4, Scheme: "world", ID: "anyone"}))
		blind, err := group.Watch(recipetest.Client(t, s), path)
		require.NoError(t, err)
		defer blind.Close()
		_, err = blind.WaitFor(background, 0)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		assert.Equal(t, " false", ids(blind))
		m, err := group.Join(recipetest.Client(t, s), path+"/deep/er", "a", nil)
		require.NoError(t, err)
		require.NoError(t, m.Joined(background), "missing parents")
		require.NoError(t, m.Leave(background))
	})
}

func TestClientClosedAndBadArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		for _, client := range []*framework.Client{nil, {}} {
			_, err := group.Join(client, path, "a", nil)
			require.ErrorIs(t, err, framework.ErrNoClient)
			_, err = group.Watch(client, path)
			require.ErrorIs(t, err, framework.ErrNoClient)
		}
		for _, id := range []string{"", "a/b", ".", "\x00"} {
			_, err := group.Join(c, path, id, nil)
			require.ErrorIs(t, err, framework.ErrInvalidPath, id)
		}
		_, err := group.Join(c, "/", "a", nil)
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		for _, opts := range [][]node.Option{
			{nil}, {node.WithMode(framework.Persistent)}, {node.WithMode(framework.PersistentSequential)}, {node.WithTTL(time.Minute)},
		} {
			_, err = group.Join(c, path, "a", nil, opts...)
			require.ErrorIs(t, err, framework.ErrInvalidOption)
			assert.False(t, s.Exists(path))
		}
		last, err := group.Join(c, path, "b", nil, node.WithMode(framework.Persistent), node.WithMode(framework.EphemeralSequential))
		require.NoError(t, err, "the last mode counts")
		require.NoError(t, last.Joined(background))
		require.NoError(t, last.Leave(background))
		var none group.Group
		for _, err := range none.Follow(background) {
			require.ErrorIs(t, err, framework.ErrNoClient)
		}
		_, err = none.WaitFor(background, 0)
		require.ErrorIs(t, err, framework.ErrNoClient)
		_, current := none.Members()
		assert.False(t, current)
		require.NoError(t, none.Close())

		m := join(t, c.UsingNamespace("team"), "a")
		assert.True(t, s.Exists("/team"+path+"/a"))
		assert.Equal(t, "a=at a true", ids(m.Group))
		told := follow(t, m.Group)
		told()
		require.NoError(t, c.Close())
		assert.Equal(t, "END", lastOf(told()))
		require.ErrorIs(t, m.Leave(background), framework.ErrClosed)
		_, err = m.WaitFor(background, 0)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// A loop over the events ends with its context, and the group does not.
func TestFollowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, recipetest.Client(t, zktest.RunT(t)), "a")
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		var last error
		for _, err := range a.Follow(ctx) {
			last = err
			cancel()
		}
		require.ErrorIs(t, last, context.Canceled)
		assert.Equal(t, "a=at a true", ids(a.Group))
	})
}

// A node of no session is no member: no process's end deletes it. Each such node is logged once.
func TestNodesOfNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		require.NoError(t, s.Create(path+"/ghost", []byte("x")))
		a := join(t, recipetest.Client(t, s, framework.WithLogger(log.Logger())), "a")
		assert.Equal(t, "a=at a true", ids(a.Group))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		_, err := a.WaitFor(ctx, 2)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, s.Set(path+"/ghost", []byte("y")))
		b := join(t, recipetest.Client(t, s), "b")
		assert.Equal(t, "a=at a b=at b true", ids(a.Group))
		assert.Equal(t, 1, strings.Count(log.String(), path+"/ghost"), log.String())
		for logged := 2; logged < 4; logged++ {
			require.NoError(t, s.Delete(path+"/ghost"))
			require.NoError(t, s.Create(path+"/ghost", nil))
			assert.Equal(t, "a=at a b=at b true", ids(a.Group))
			assert.Equal(t, logged, strings.Count(log.String(), path+"/ghost"), "another node: %s", log.String())
		}
		require.NoError(t, b.Leave(background))
		require.NoError(t, a.Leave(background))
	})
}

// A Leave that fails, or does not wait, closes the member's group. The client deletes the node if it can.
func TestLeaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		require.NoError(t, s.Create(path, nil))
		fails := func(why error, before func()) {
			m, err := group.Join(c, path, "a", nil)
			require.NoError(t, err)
			require.NoError(t, m.Joined(background))
			before()
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			require.ErrorIs(t, m.Leave(ctx), why)
			_, err = m.WaitFor(background, 0)
			require.ErrorIs(t, err, cache.ErrClosed)
		}
		var away *zktest.Injection
		fails(context.DeadlineExceeded, func() {
			away = s.Inject(zktest.Fault{Op: "delete", Action: zktest.Hold})
		})
		away.Release()
		recipetest.Clean(t, s, path)
		recipetest.Tidy(t, c)

		m, err := group.Join(c, path, "a", nil)
		require.NoError(t, err)
		require.NoError(t, m.Joined(background))
		left := make(chan error, 1)
		m.LeaveInBackground(func(err error) { left <- err })
		require.NoError(t, <-left)
		_, err = m.WaitFor(background, 0)
		require.ErrorIs(t, err, cache.ErrClosed)
		recipetest.Clean(t, s, path)

		fails(framework.ErrNoAuth, func() {
			require.NoError(t, s.SetACL(path, zktest.ACL{Perms: int32(framework.PermRead), Scheme: "world", ID: "anyone"}))
		})
		recipetest.Clean(t, s)
	})
}
