package snippets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func elect(ctx context.Context, client *framework.Client, report func(context.Context) error) (err error) {
	// [readme: an election]
	selector := leader.NewSelector(client, "/leader/report", func(ctx context.Context) error {
		return report(ctx) // in one process at a time; ctx ends with the term
	})
	err = selector.Run(ctx) // leads again and again, until ctx ends or report fails
	// [end]
	return err
}

// The program is complete: it runs as it is shown, and says what is missing.
func TestReadmeProgram(t *testing.T) {
	ctx, server, _ := serve(t)
	run := func(servers string) (string, error) {
		program := exec.CommandContext(ctx, "go", "run", "./program")
		program.Env = append(os.Environ(), "CURATOR_SERVERS="+servers)
		out, err := program.CombinedOutput()
		return string(out), err
	}
	out, err := run(server.Addr())
	require.NoError(t, err, out)
	assert.Regexp(t, `(?m)^settling orders with token \d+$`, out)
	out, err = run("")
	require.Error(t, err)
	assert.Contains(t, out, `write "host:2181"`)
}

func TestReadme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
		require.NoError(t, err)
		defer client.Close()

		led := 0
		broken := errors.New("the report is broken")
		require.ErrorIs(t, elect(t.Context(), client, func(context.Context) error {
			if led++; led == 3 {
				return broken
			}
			return nil
		}), broken)
		assert.Equal(t, 3, led, "nil stands in line again, an error ends it")

		require.NoError(t, server.Create("/config", []byte("1")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var seen []string
		fmt := printer(func(text string) { seen = append(seen, text) })
		require.NoError(t, func() error {
			// [readme: a cache]
			settings, err := cache.New(client, "/config") // a local copy of the subtree
			if err != nil {
				return err
			}
			defer settings.Close()
			for event, err := range settings.Events(ctx) {
				fmt.Println(event, err) // in order; after an outage, the changes that it hid
			}
			// [end]
			return nil
		}())
		assert.Contains(t, strings.Join(seen, "\n"), "/config")
	})
}

type printer func(string)

func (p printer) Println(what ...any) { p(fmt.Sprintln(what...)) }

// [readme: virtual time]
func TestLostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		client, _ := framework.New(server.Addr(),
			framework.WithDialer(server.Dial), framework.WithSessionTimeout(10*time.Second))
		defer client.Close()
		lock, _ := mutex.New(client, "/locks/orders").Acquire(t.Context())
		server.BlackHole(0, zktest.Both) // nothing arrives any more, and no connection is closed
		<-lock.Context().Done()          // before the server expires the session
	})
}

// [end]
