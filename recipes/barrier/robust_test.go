package barrier_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/zktest"
)

// The data of other members' nodes do not matter, even if this client packs its own data.
func TestPlainDataOfOthers(t *testing.T) {
	t.Run("barrier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s, framework.WithCompression())
			require.NoError(t, s.Create("/gate", []byte("plain")))
			wait := waiting(t, background, barrier.New(c, "/gate")).Waits()
			require.NoError(t, s.Delete("/gate"))
			wait.OK()
		})
	})
	t.Run("double", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s, framework.WithCompression())
			w := entering(t, background, barrier.NewDouble(c, path, 2)).Waits()
			java(t, s, newClient(t, s), "!1")
			require.NoError(t, s.Set(path+"/!1", []byte("plain")))
			require.NoError(t, s.Create(path+"/ready", []byte("plain")))
			out := leaving(t, background, w.OK()).Waits()
			require.NoError(t, s.Delete(path+"/!1"))
			out.OK()
			clean(t, s)
		})
	})
}

// User code runs inside Enter and Leave: ACL providers, hooks, retry policies. Even if it does not return, no node is left that
// no caller can delete.
func TestCallbackDoesNotReturn(t *testing.T) {
	panics := func() { panic("out of order") }
	for name, end := range map[string]func(){"panic": panics, "Goexit": runtime.Goexit} {
		t.Run(name+" in Enter", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s, framework.WithACLProvider(func(of string) []framework.ACL {
					if of == path+"/ready" {
						end()
					}
					return framework.OpenACL()
				}))
				struck := make(chan any, 1)
				go func() {
					defer func() { struck <- recover() }()
					_, _ = barrier.NewDouble(c, path, 1).Enter(background)
					t.Error("returned")
				}()
				<-struck
				clean(t, s)
			})
		})
		t.Run(name+" in Leave", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				type key struct{}
				hook := func(ctx context.Context, _ framework.Operation) func(framework.OperationEnd) {
					if ctx.Value(key{}) != nil {
						end()
					}
					return nil
				}
				c := newClient(t, s, framework.WithHooks(framework.Hooks{Operation: hook}))
				m := enter(t, barrier.NewDouble(c, path, 1))
				struck := make(chan any, 1)
				go func() {
					defer func() { struck <- recover() }()
					_ = m.Leave(context.WithValue(background, key{}, true))
					t.Error("returned")
				}()
				<-struck
				clean(t, s)
			})
		})
	}
}

// In a session's view the loss of that session ends every wait: there is no later session. After an expiry the watch reports the
// loss, in an outage the clock does.
func TestSessionViewEnds(t *testing.T) {
	for name, end := range map[string]func(*zktest.Server, int64){
		"expiry": func(s *zktest.Server, id int64) { s.Expire(id) },
		"outage": func(s *zktest.Server, _ int64) { s.Stop(); time.Sleep(time.Minute); _ = s.Start() },
	} {
		for who, n := range map[string]int{"lowest": 0, "another": 1} {
			t.Run(name+" "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					var views []*framework.Client
					var calls []*call[*barrier.Member]
					for range 2 {
						pinned, err := newClient(t, s).Session(background)
						require.NoError(t, err)
						views = append(views, pinned.Client())
						calls = append(calls, entering(t, background, barrier.NewDouble(pinned.Client(), path, 2)))
					}
					if calls[0].OK().Path() > calls[1].OK().Path() {
						slices.Reverse(calls)
						slices.Reverse(views)
					}
					gate := barrier.New(views[n], "/gate")
					require.NoError(t, gate.Set(background))
					wait, out := waiting(t, background, gate).Waits(), leaving(t, background, calls[n].OK()).Waits()
					end(s, session(t, views[n]))
					time.Sleep(time.Minute)
					_, err := wait.Returned()
					require.ErrorIs(t, err, barrier.ErrSessionLost)
					_, err = out.Returned()
					require.ErrorIs(t, err, barrier.ErrSessionLost)
					require.ErrorIs(t, gate.Set(background), barrier.ErrSessionLost)
				})
			})
		}
	}
}

// From ZooKeeper 3.8.4 and 3.9.2 on a server sends no events of nodes that the client may not READ. Whether such a node exists
// can still be read.
func TestDroppedEvents(t *testing.T) {
	const limit = 13 * time.Second // the session timeout and a quarter
	unreadable := zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}
	for _, profile := range []zktest.Profile{zktest.V38, zktest.V39} {
		t.Run(profile.String(), func(t *testing.T) {
			t.Run("Enter", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t, zktest.Config{Profile: profile})
					w := entering(t, background, barrier.NewDouble(newClient(t, s), path, 2)).Waits()
					credentials := framework.WithAuth("digest", []byte("a:b"))
					opener := newClient(t, s, credentials, framework.WithACLProvider(func(of string) []framework.ACL {
						if of == path+"/ready" {
							return framework.CreatorACL()
						}
						return framework.OpenACL()
					}))
					other := enter(t, barrier.NewDouble(opener, path, 2))
					w.Waits()
					time.Sleep(limit)
					out := leaving(t, background, w.OK())
					leaving(t, background, other).OK()
					out.OK()
					clean(t, s)
				})
			})
			for name, again := range map[string]bool{"removed": false, "removed and set again": true} {
				t.Run("Wait, "+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := zktest.RunT(t, zktest.Config{Profile: profile})
						b := barrier.New(newClient(t, s), path)
						require.NoError(t, b.Set(background))
						w := waiting(t, background, b).Waits()
						require.NoError(t, s.SetACL(path, unreadable))
						time.Sleep(time.Minute)
						w.Waits()
						require.NoError(t, s.Delete(path))
						if again {
							require.NoError(t, s.Create(path, nil))
						}
						w.Waits()
						time.Sleep(limit)
						w.OK()
					})
				})
			}
			for who, n := range map[string]int{"lowest": 0, "another": 1} {
				t.Run("Leave, "+who, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := zktest.RunT(t, zktest.Config{Profile: profile})
						members, _ := enterAll(t, s, 2)
						out := leaving(t, background, members[n]).Waits()
						require.NoError(t, s.SetACL(members[1-n].Path(), unreadable))
						time.Sleep(time.Minute)
						out.Waits()
						leaving(t, background, members[1-n])
						time.Sleep(limit)
						out.OK()
						require.Empty(t, children(t, s))
					})
				})
			}
			t.Run("Leave, without the right to list", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t, zktest.Config{Profile: profile})
					members, _ := enterAll(t, s, 2)
					require.NoError(t, s.SetACL(members[1].Path(), unreadable))
					out := leaving(t, background, members[0]).Waits() // waits until the directory changes
					require.NoError(t, s.SetACL(path, unreadable))
					require.NoError(t, s.Delete(members[1].Path()))
					out.Waits()
					time.Sleep(limit)
					out.OK()
				})
			})
		})
	}
}
