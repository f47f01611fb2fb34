package moving

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/bradfitz/gomemcache/memcache"
	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
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
	_       = []any{setNX, add, watchdog, redlock, row, getLock, advisory, etcd, guarded, inDatabase}
)

func setNX(ctx context.Context, rdb *redis.Client, id string, work func(context.Context) error) error {
	// [redis, before]
	ok, err := rdb.SetNX(ctx, "orders", id, 4*time.Second).Result()
	if err != nil {
		return err
	}
	if !ok {
		return errHeld // ask again after a while
	}
	defer releaseIfMine.Run(context.WithoutCancel(ctx), rdb, []string{"orders"}, id)
	return work(ctx) // has to be done within 4 s
	// [end]
}

var releaseIfMine = redis.NewScript(
	`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

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
	// [redis, after, with a fence]
	fences := fenceredis.New(rdb)
	total := fenceredis.Key("orders", "total")
	return orders.Do(ctx, func(ctx context.Context) error {
		token, err := fence.From(ctx)
		if err != nil {
			return err
		}
		return fences.Set(ctx, "orders", token, total, 42, 0) // fence.ErrOutdated: somebody else has had the lock
	})
	// [end]
}

func add(cache *memcache.Client, id string, work func() error) error {
	// [memcached, before]
	err := cache.Add(&memcache.Item{Key: "orders", Value: []byte(id), Expiration: 4})
	if errors.Is(err, memcache.ErrNotStored) {
		return errHeld
	}
	if err != nil {
		return err
	}
	defer cache.Delete("orders") // somebody else's, if the work took longer than 4 s
	return work()
	// [end]
}

func tries(ctx context.Context, client *framework.Client, work func(context.Context) error) error {
	orders := mutex.New(client, "/locks/orders")
	// [after, without waiting]
	lock, err := orders.TryAcquire(ctx)
	if errors.Is(err, mutex.ErrNotAcquired) {
		return errHeld
	}
	if err != nil {
		return err
	}
	defer lock.ReleaseInBackground()
	return work(lock.Context())
	// [end]
}

func watchdog(ctx context.Context, rdb *redis.Client, work func(context.Context) error) error {
	// [watchdog, before]
	lock, err := redislock.Obtain(ctx, rdb, "orders", 4*time.Second, nil)
	if err != nil {
		return err // redislock.ErrNotObtained: ask again
	}
	defer func() { _ = lock.Release(context.WithoutCancel(ctx)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for ctx.Err() == nil {
			time.Sleep(time.Second)
			if err := lock.Refresh(ctx, 4*time.Second, nil); err != nil {
				cancel(err)
			}
		}
	}()
	return work(ctx)
	// [end]
}

func redlock(ctx context.Context, rs *redsync.Redsync, work func(context.Context) error) error {
	// [redlock, before]
	orders := rs.NewMutex("orders", redsync.WithExpiry(4*time.Second))
	if err := orders.LockContext(ctx); err != nil {
		return err
	}
	defer orders.UnlockContext(context.WithoutCancel(ctx))
	return work(ctx) // has to be done within 4 s
	// [end]
}

func row(ctx context.Context, db *sql.DB, id string, work func(context.Context) error) error {
	// [row, before]
	if _, err := db.ExecContext(ctx, "INSERT INTO locks (name, owner) VALUES ('orders', ?)", id); err != nil {
		return err // a duplicate key: somebody else has it, or has died with it
	}
	defer db.ExecContext(context.WithoutCancel(ctx), "DELETE FROM locks WHERE name = 'orders' AND owner = ?", id)
	return work(ctx)
	// [end]
}

func getLock(ctx context.Context, db *sql.DB, work func(context.Context) error) error {
	// [GET_LOCK, before]
	conn, err := db.Conn(ctx) // the lock is this connection's
	if err != nil {
		return err
	}
	defer conn.Close()
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('orders', 10)").Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errHeld
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK('orders')")
	return work(ctx)
	// [end]
}

func advisory(ctx context.Context, db *sql.DB, work func(context.Context) error) error {
	// [pg_advisory_lock, before]
	conn, err := db.Conn(ctx) // the lock is this connection's
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext('orders'))"); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext('orders'))")
	return work(ctx)
	// [end]
}

// [database, fence]
var fences = fencesql.New(fencesql.PostgreSQL) // or MySQL, which is MariaDB's, too, or SQLite
// [end]

func inDatabase(ctx context.Context, orders *mutex.Mutex, db *sql.DB, write func(context.Context, *sql.Tx) error) error {
	if err := fences.Migrate(ctx, db); err != nil {
		return err
	}
	// [database, after, with a fence]
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
			return err // fence.ErrOutdated: somebody else has had the lock
		}
		if err := write(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	})
	// [end]
}

func etcd(ctx context.Context, client *clientv3.Client, total string) error {
	// [etcd, before]
	session, err := concurrency.NewSession(client, concurrency.WithTTL(4))
	if err != nil {
		return err
	}
	defer session.Close()
	orders := concurrency.NewMutex(session, "/locks/orders")
	if err := orders.Lock(ctx); err != nil {
		return err
	}
	defer orders.Unlock(context.WithoutCancel(ctx))
	_, err = client.Txn(ctx).If(orders.IsOwner()).Then(clientv3.OpPut("/orders/total", total)).Commit()
	return err
	// [end]
}

func guarded(ctx context.Context, client *framework.Client, orders *mutex.Mutex, total []byte) error {
	// [etcd, after]
	return orders.Do(ctx, func(ctx context.Context) error {
		_, err := client.Transaction(ctx, mutex.LockOf(ctx).Guard(), // framework.ErrNoNode: the lock is lost
			client.TransactionOp().SetData().ForPath("/orders/total", total))
		return err
	})
	// [end]
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
	require.NoError(t, setNX(ctx, rdb, "me", work))
	require.NoError(t, waits(ctx, client, work))
	require.NoError(t, tries(ctx, client, work))
	assert.Equal(t, 3, worked)
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
