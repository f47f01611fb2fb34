package barrier_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/zktest"
)

// What others write into their nodes does not matter, whatever this client would make of its own data.
func TestPlainDataOfOthers(t *testing.T) {
	t.Run("barrier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s, framework.WithCompression())
			require.NoError(t, s.Create("/gate", []byte("plain")))
			wait := waiting(t, background, barrier.New(c, "/gate")).waits()
			require.NoError(t, s.Delete("/gate"))
			wait.ok()
		})
	})
	t.Run("double", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s, framework.WithCompression())
			w := entering(t, background, barrier.NewDouble(c, path, 2)).waits()
			java(t, s, newClient(t, s), "!1")
			require.NoError(t, s.Set(path+"/!1", []byte("plain")))
			require.NoError(t, s.Create(path+"/ready", []byte("plain")))
			out := leaving(t, background, w.ok()).waits()
			require.NoError(t, s.Delete(path+"/!1"))
			out.ok()
			clean(t, s)
		})
	})
}

// The user's code runs inside Enter and Leave: ACL providers, hooks, retry policies. Whatever it does, no member is left that nobody knows of.
func TestCallbackDoesNotReturn(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("out of order") }, "Goexit": runtime.Goexit} {
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
				c := newClient(t, s, framework.WithHooks(framework.Hooks{Operation: func(ctx context.Context, _ framework.Operation) func(framework.OperationEnd) {
					if ctx.Value(key{}) != nil {
						end()
					}
					return nil
				}}))
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
