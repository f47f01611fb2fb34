package discovery_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	base = "/services"
	path = base + "/web"
)

var background = context.Background()

type (
	instance     = discovery.Instance[string]
	registration = discovery.Registration[string]
	cacheOf      = discovery.Cache[string]
)

func services(t *testing.T, c *framework.Client) *discovery.Discovery[string] {
	t.Helper()
	d, err := discovery.New[string](c, base)
	require.NoError(t, err)
	return d
}

func web(id, payload string) instance {
	return instance{Name: "web", ID: id, Address: "10.0.0.7", Port: 80, Payload: payload}
}

func register(t *testing.T, c *framework.Client, i instance) *registration {
	t.Helper()
	r, err := services(t, c).Register(background, i)
	require.NoError(t, err)
	return r
}

// watch returns a cache of the service web.
func watch(t *testing.T, c *framework.Client) *cacheOf {
	t.Helper()
	w, err := services(t, c).Cache("web")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	require.NoError(t, w.WaitSynced(background))
	return w
}

// text returns a list of instances as ID=payload.
func text(all []instance) string {
	var words []string
	for _, i := range all {
		words = append(words, i.ID+"="+i.Payload)
	}
	return strings.Join(words, " ")
}

// shows asserts a cache's instances after all events are handled.
func shows(t *testing.T, c *cacheOf, want string) {
	t.Helper()
	synctest.Wait()
	assert.Equal(t, want, text(c.Instances()))
}

// soon waits until is returns true, at most for a virtual minute.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 6000 {
		if synctest.Wait(); is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// in runs a test in virtual time with a server.
func in(t *testing.T, f func(t *testing.T, s *zktest.Server)) {
	synctest.Test(t, func(t *testing.T) { f(t, zktest.RunT(t)) })
}

// lists returns a function that returns the lists that a cache's Follow has yielded since the last call.
func lists(t *testing.T, c *cacheOf) (told func() string) {
	ctx, cancel := context.WithCancel(background)
	all := make(chan string, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for list, err := range c.Follow(ctx) {
			if err != nil {
				all <- fmt.Sprint("end: ", err)
				return
			}
			all <- cmp.Or(text(list), "nobody")
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() string {
		synctest.Wait()
		var words []string
		for len(all) > 0 {
			words = append(words, <-all)
		}
		return strings.Join(words, ", ")
	}
}

var newClient = recipetest.Client
