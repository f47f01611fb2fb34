package snippets

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
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

// The code of the README. What it does with a lock:
func settle(
	ctx context.Context, client *framework.Client, db *database, id int,
) error {
	// [readme: a lock]
	lock, err := mutex.New(client, "/locks/orders").Acquire(ctx) // first come, first served
	if err != nil {
		return err
	}
	defer lock.ReleaseInBackground()
	// lock.Context() ends when the lock is lost, before anybody else can get it. The token lets the database
	// refuse what arrives late all the same.
	_, err = db.ExecContext(lock.Context(),
		`UPDATE orders SET state = 'settled', token = $1 WHERE id = $2 AND token <= $1`, lock.FencingToken(), id)
	// [end]
	return err
}

// database remembers what it was asked.
type database struct{ asked []any }

func (d *database) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	d.asked = append(d.asked, append([]any{query}, args...)...)
	return nil, nil
}

func connectForReadme() error {
	use := func(*framework.Client) error { return nil }
	// [readme: a client]
	client, err := framework.New("zk1:2181,zk2:2181,zk3:2181",
		framework.WithNamespace("app"), // all paths are below /app, which is made when first missed
		framework.WithSessionTimeout(30*time.Second),
		framework.WithLogger(slog.Default())) // else nothing is logged, not even that no server can be reached
	if err != nil {
		return err
	}
	defer client.Close()
	// [end]
	return use(client)
}

func elect(ctx context.Context, client *framework.Client, report func(context.Context) error) (err error) {
	// [readme: an election]
	selector := leader.NewSelector(client, "/leader/report", func(ctx context.Context) error {
		return report(ctx) // one process at a time; ctx ends with its term
	})
	// Run leads again and again, until ctx ends or report fails while it leads; RunOnce leads once. A Latch
	// is for code that goes on between its terms.
	err = selector.Run(ctx)
	// [end]
	return err
}

func TestReadme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		require.NoError(t, connectForReadme())
		client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
		require.NoError(t, err)
		defer client.Close()

		var db database
		require.NoError(t, settle(t.Context(), client, &db, 7))
		require.Len(t, db.asked, 3)
		assert.Positive(t, db.asked[1])

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
				fmt.Println(event, err) // ordered, complete, and true across outages
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
		server.BlackHole(0, zktest.Both) // nothing arrives any more, and nobody says so
		<-lock.Context().Done()          // still before the server expires the session
	})
}

// [end]
