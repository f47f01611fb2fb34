package moving

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/contrib/fence"
	fenceredis "github.com/go-curator/curator/contrib/fence/redis"
	fencesql "github.com/go-curator/curator/contrib/fence/sql"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errHeld = errors.New("somebody else has the lock")
	_       = []any{inDatabase}
)

func waits(ctx context.Context, client *framework.Client, work func(context.Context) error) error {
	// [after]
	orders := mutex.New(client, "/locks/orders")
	return orders.Do(ctx, func(ctx context.Context) error {
		return work(ctx) // ctx ends when the lock is lost
	})
	// [end]
}

func inRedis(ctx context.Context, client *framework.Client, rdb *redis.Client) error {
	orders := mutex.New(client, "/locks/orders")
	fences := fenceredis.New(rdb)
	total := fenceredis.Key("orders", "total")
	return orders.Do(ctx, func(ctx context.Context) error {
		token, err := fence.From(ctx)
		if err != nil {
			return err
		}
		return fences.Set(ctx, "orders", token, total, 42, 0) // fence.ErrOutdated: another holder has had the lock
	})
}

func tries(ctx context.Context, client *framework.Client, work func(context.Context) error) error {
	orders := mutex.New(client, "/locks/orders")
	lock, err := orders.TryAcquire(ctx)
	if errors.Is(err, mutex.ErrNotAcquired) {
		return errHeld
	}
	if err != nil {
		return err
	}
	defer lock.ReleaseInBackground()
	return work(lock.Context())
}

var fences = fencesql.New(fencesql.PostgreSQL) // or MySQL, which is MariaDB's, too, or SQLite

func inDatabase(ctx context.Context, orders *mutex.Mutex, db *sql.DB, write func(context.Context, *sql.Tx) error) error {
	if err := fences.Migrate(ctx, db); err != nil {
		return err
	}
	return orders.Do(ctx, func(ctx context.Context) error {
		token, err := fence.From(ctx)
		if err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // of one that was not committed
		if err := fences.Guard(ctx, tx, "orders", token); err != nil {
			return err // fence.ErrOutdated: another holder has had the lock
		}
		if err := write(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

func guarded(ctx context.Context, client *framework.Client, orders *mutex.Mutex, total []byte) error {
	return orders.Do(ctx, func(ctx context.Context) error {
		_, err := client.Transaction(ctx, mutex.LockOf(ctx).Guard(), // framework.ErrNotHeld: the lock is lost
			client.TransactionOp().SetData().ForPath("/orders/total", total))
		return err
	})
}

func TestWhatNeedsNoOtherServers(t *testing.T) {
	server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
	client, err := framework.New(server.Addr(), framework.WithSessionTimeout(30*time.Second))
	require.NoError(t, err)
	defer client.Close()
	mini := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	worked := 0
	work := func(ctx context.Context) error { worked++; return ctx.Err() }
	require.NoError(t, waits(ctx, client, work))
	require.NoError(t, tries(ctx, client, work))
	assert.Equal(t, 2, worked)
	require.NoError(t, inRedis(ctx, client, rdb))
	total, err := rdb.Get(ctx, fenceredis.Key("orders", "total")).Int()
	require.NoError(t, err)
	assert.Equal(t, 42, total)

	_, err = client.Create().CreatingParentsIfNeeded().ForPath(ctx, "/orders/total", nil)
	require.NoError(t, err)
	require.NoError(t, guarded(ctx, client, mutex.New(client, "/locks/orders"), []byte("42")))
	data, err := client.GetData().ForPath(ctx, "/orders/total")
	require.NoError(t, err)
	assert.Equal(t, "42", string(data))
}
