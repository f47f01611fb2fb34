package snippets

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// The code of docs/suspended-and-lost.md and docs/errors.md, and what docs/compatibility.md claims.

func keepSettling(ctx context.Context, client *framework.Client, settle func(context.Context) error) error {
	// [lost: join the line again]
	orders := mutex.New(client, "/locks/orders")
	for {
		err := orders.Do(ctx, func(ctx context.Context) error {
			return settle(ctx) // ctx ends when the lock is lost, before another process can have it
		})
		switch {
		case errors.Is(err, framework.ErrSessionLost), errors.Is(err, framework.ErrNodeDeleted):
			// Lost while settle ran: the next round must check how much this one has done.
		default:
			return err // nil, or of settle, of ctx, or why no lock was acquired
		}
	}
	// [end]
}

func payIfHeld(lock *mutex.Lock, pay func() error) error {
	// [lost: before an act]
	if !lock.Valid() { // asks the clock: right also if the process has just been stopped for a minute
		return context.Cause(lock.Context())
	}
	return pay()
	// [end]
}

func logStates(ctx context.Context, client *framework.Client, log func(string, int64)) {
	// [lost: states]
	for change := range client.StateChanges(ctx) { // begins with the present state
		switch change.State {
		case framework.Suspended:
			log("no connection; the session may survive", change.Epoch)
		case framework.Reconnected:
			log("connected; a new session if the epoch has grown", change.Epoch)
		case framework.Lost:
			log("the session is lost, and all its holds have ended", change.Epoch)
		}
	}
	// [end]
}

func TestSuspendedAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		client, err := framework.New(server.Addr(),
			framework.WithDialer(server.Dial), framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.WaitConnected(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		type state struct {
			text  string
			epoch int64
		}
		states := make(chan state, 10)
		go logStates(ctx, client, func(text string, epoch int64) { states <- state{text[:4], epoch} })
		announced := func() (all []state) {
			synctest.Wait()
			for len(states) > 0 {
				all = append(all, <-states)
			}
			return all
		}

		var turns atomic.Int32
		settled := make(chan error, 1)
		go func() {
			settled <- keepSettling(ctx, client, func(ctx context.Context) error {
				lock := mutex.LockOf(ctx)
				assert.NoError(t, payIfHeld(lock, func() error { return nil }))
				turns.Add(1)
				<-ctx.Done()
				if lost := context.Cause(ctx); !errors.Is(lost, context.Canceled) {
					assert.ErrorIs(t, payIfHeld(lock, func() error { return nil }), framework.ErrSessionLost)
				}
				return context.Cause(ctx)
			})
		}()
		time.Sleep(time.Second)
		server.Cut(0)
		time.Sleep(time.Minute)
		require.Equal(t, []state{{"no c", 1}, {"conn", 1}}, announced())
		require.EqualValues(t, 1, turns.Load(), "the lock has survived")

		server.BlackHole(0, zktest.Both)
		time.Sleep(time.Minute)
		server.Heal()
		time.Sleep(time.Minute)
		assert.Equal(t, []state{{"no c", 1}, {"the ", 1}, {"conn", 2}}, announced())
		assert.EqualValues(t, 2, turns.Load(), "after the session was lost")

		cancel()
		assert.ErrorIs(t, <-settled, context.Canceled)
	})
}

func setChecked(
	ctx context.Context, client *framework.Client, version int32, data []byte,
) (what string, err error) {
	// [errors: a write]
	_, err = client.SetData().WithVersion(version).ForPath(ctx, "/orders/7", data)
	switch {
	case errors.Is(err, framework.ErrOutcomeUnknown):
		what = "perhaps written: Sync, and read the node"
	case errors.Is(err, framework.ErrBadVersion):
		what = "not written: read the new version, and decide again"
	case framework.Retryable(err):
		what = "not written: no server can be reached, and the retry policy allows no further try"
	}
	// [end]
	return what, err
}

func TestErrorsOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		client, err := framework.New(server.Addr(),
			framework.WithDialer(server.Dial), framework.WithRetry(retry.RetryNTimes{}))
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, server.Create("/orders/7", nil))
		set := func(version int32) string {
			what, err := setChecked(t.Context(), client, version, []byte("paid"))
			what, _, _ = strings.Cut(what, ":")
			if err == nil {
				require.Empty(t, what)
			}
			return what
		}
		assert.Empty(t, set(0))
		assert.Equal(t, "not written", set(0))
		server.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
		assert.Equal(t, "perhaps written", set(1))
		assert.Empty(t, set(2), "it was")
		server.Stop()
		synctest.Wait()
		what, err := setChecked(t.Context(), client, 3, nil)
		assert.ErrorIs(t, err, framework.ErrNotConnected)
		assert.Contains(t, what, "no server")
	})
}

// The page about compatibility names the releases that are tested, and the profiles of zktest, and the oldest Go.
func TestCompatibility(t *testing.T) {
	page := read(t, "../compatibility.md")
	want := regexp.MustCompile(`\b\d+\.\d+\.\d+\b`).FindAllString(read(t, "../../integration/matrix"), -1)
	require.Greater(t, len(want), 5)
	for _, p := range zktest.Profiles() {
		want = append(want, regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(p.String()))
	}
	_, oldest, _ := strings.Cut(read(t, "../../go.mod"), "\ngo ")
	want = append(want, oldest[:4])
	for _, version := range want {
		assert.Contains(t, page, version)
	}
	for _, profile := range regexp.MustCompile(`\tV\d+\w*`).FindAllString(read(t, "../../zktest/config.go"), -1) {
		assert.Contains(t, page, "`zktest."+profile[1:]+"`")
	}
}
