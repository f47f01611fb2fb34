// Package ways has every other way to lock, and this library's, behind one small interface. Each is used as its
// documents show.
package ways

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHeld is returned by Try if another contender holds the lock.
var ErrHeld = errors.New("somebody else has the lock")

// ErrNone is returned for features that a way does not have.
var ErrNone = errors.New("this way has no such thing")

// name is the name of the lock, for all contenders of all ways.
const name = "orders"

// again is the pause between the tries of a way that has to poll.
const again = 50 * time.Millisecond

// Way is one contender's access to the lock.
type Way interface {
	// Acquire waits until it has the lock, or ctx ends.
	Acquire(ctx context.Context) (Hold, error)
	// Try returns ErrHeld immediately if another contender holds it. It is ErrNone if the way can only wait.
	Try(ctx context.Context) (Hold, error)
	// Close leaves nothing behind.
	Close() error
}

// Hold is a lock that was granted.
type Hold interface {
	// Lost returns an error if the lock is lost, as far as the way's client reports that: it is called before each
	// act.
	Lost() error
	// Reenter acquires the lock that the caller has already. ErrNone: the way would wait for itself, or refuse.
	Reenter(ctx context.Context) error
	// Release releases the lock.
	Release(ctx context.Context) error
}

// Clocked is a Way whose lock belongs to another process: Clock returns the wall clock of that one.
type Clocked interface {
	Clock(ctx context.Context) (time.Time, error)
}

// Guarded is a Hold whose acts go through the store that has the lock.
type Guarded interface {
	// Act returns the act's place in the order of all. On an error the act was not executed.
	Act(ctx context.Context) (order int64, err error)
}

// Config has the parameters of a contender.
type Config struct {
	Servers []string      // host:port
	Lease   time.Duration // after which a lock whose holder is silent is free; whole seconds
	ID      string        // of the contender
	Dir     string        // for the contender's own files
	Store   string        // host:port of the store for the acts, of a way with Kind.Store
}

// Server is the kind of servers that a way needs.
type Server string

// The kinds of servers.
const (
	Redis      Server = "redis"
	FiveRedis  Server = "redis×5"
	RedisPair  Server = "redis+replica"
	Memcached  Server = "memcached"
	MariaDB    Server = "mariadb"
	PostgreSQL Server = "postgresql"
	Etcd       Server = "etcd"
	ZooKeeper  Server = "zookeeper"
)

// Kind is a way that can be opened.
type Kind struct {
	ID     string
	Title  string // for tables
	Server Server
	// Store is the server of a way's acts, if that decides about them; "" for other ways. The faults leave it alone.
	Store Server
	// Lasts is set if a hold lasts until it is released: it is renewed, or does not expire. Other holds must end
	// before their lease does.
	Lasts bool
	// HasLease is set if a silent holder loses the lock after a time.
	HasLease bool
	Use      string // how it is used here, with its library
	Open     func(ctx context.Context, c Config) (Way, error)
	Has      Has
}

// Has is the part of the checklist that follows from the documents. Each is "yes" or "no", or says more.
type Has struct {
	ReadWrite, Token string
	Source           string // where it is written
}

// Find returns a kind by its ID.
func Find(id string) (Kind, error) {
	for _, k := range All {
		if k.ID == id {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("there is no way %q: compare ways lists them", id)
}

// All are the ways in the order of the tables.
var All = []Kind{
	{ID: "curator", Title: "this library", Server: ZooKeeper, Lasts: true, HasLease: true,
		Use:  "`mutex.Mutex`; before each act `Lock.Context` and `Lock.Valid` are asked",
		Open: openCurator(plain), Has: Has{"yes", "yes", "`recipes/rwlock`, `mutex.Lock.FencingToken`"}},
	{ID: "curator-guard", Title: "this library, guarded", Server: ZooKeeper, Lasts: true, HasLease: true,
		Use:  "the same; each act is a transaction with `Lock.Guard`, on a node in ZooKeeper, and ZooKeeper's order counts",
		Open: openCurator(guarded), Has: Has{"yes", "yes", "`mutex.Lock.Guard`"}},
	{ID: "curator-fenced", Title: "this library, fenced", Server: ZooKeeper, Store: Redis, Lasts: true, HasLease: true,
		Use: "the same; each act is a script with the token in a Redis that refuses older ones (`contrib/fence/redis`), and " +
			"its order counts. The faults are those of the lock: the Redis is reached through all of them",
		Open: openCurator(fenced), Has: Has{"yes", "yes", "`contrib/fence`"}},
	{ID: "java-curator", Title: "Curator for Java", Server: ZooKeeper, Lasts: true, HasLease: true,
		Use:  "5.4, `InterProcessMutex`; told by `ConnectionStateListener`: SUSPENDED or LOST",
		Open: openJava, Has: Has{"yes", "no", "<https://curator.apache.org/docs/recipes-shared-reentrant-lock>"}},
	{ID: "go-zookeeper", Title: "go-zookeeper's Lock", Server: ZooKeeper, Lasts: true, HasLease: true,
		Use:  "`zk.NewLock`; told by the session's event `StateExpired`",
		Open: openGoZookeeper, Has: Has{"no", "no", "<https://pkg.go.dev/github.com/go-zookeeper/zk#Lock>"}},
	{ID: "etcd", Title: "etcd concurrency", Server: Etcd, Lasts: true, HasLease: true,
		Use:  "`concurrency.NewSession` and `NewMutex`; told by `Session.Done`",
		Open: openEtcd, Has: Has{"no", "yes (revision)", "<https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency>"}},
	{ID: "redis-setnx-expire", Title: "Redis SETNX, then EXPIRE", Server: Redis, HasLease: true,
		Use:  "go-redis: two commands; released with `DEL`",
		Open: openRedis(twoCommands), Has: Has{"no", "no", "<https://redis.io/docs/latest/commands/setnx/>"}},
	{ID: "redis-set-px", Title: "Redis SET NX PX", Server: Redis, HasLease: true,
		Use:  "go-redis: one command; released by a script that compares the value",
		Open: openRedis(oneCommand), Has: Has{"no", "no", "<https://redis.io/docs/latest/commands/set/>"}},
	{ID: "redis-watchdog", Title: "Redis, renewed by a watchdog", Server: Redis, Lasts: true, HasLease: true,
		Use: "bsm/redislock, refreshed every third of the lease, as Redisson does; told when a refresh finds the key " +
			"gone, or none has succeeded for a lease",
		Open: openWatchdog, Has: Has{"no", "no", "<https://pkg.go.dev/github.com/bsm/redislock>"}},
	{ID: "redis-replica", Title: "Redis with a replica", Server: RedisPair, HasLease: true,
		Use:  "SET NX PX as above, at one address, which goes to the replica when that is promoted",
		Open: openRedis(oneCommand), Has: Has{"no", "no", "<https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>"}},
	{ID: "redlock", Title: "RedLock over 5 servers", Server: FiveRedis, HasLease: true,
		Use:  "go-redsync/redsync",
		Open: openRedsync, Has: Has{"no", "no", "<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>"}},
	{ID: "memcached-add", Title: "memcached add", Server: Memcached, HasLease: true,
		Use:  "gomemcache: `Add` with an expiry, `Delete`",
		Open: openMemcached, Has: Has{"no", "no", "<https://pkg.go.dev/github.com/bradfitz/gomemcache/memcache>"}},
	{ID: "mariadb-row", Title: "MariaDB, unique row", Server: MariaDB, Lasts: true,
		Use:  "`INSERT` of a row with a unique name, `DELETE` by name and owner",
		Open: openRow(false), Has: Has{"no", "no", "<https://mariadb.com/kb/en/insert/>"}},
	{ID: "mariadb-row-expiry", Title: "MariaDB, unique row that expires", Server: MariaDB, HasLease: true,
		Use:  "the same; a row whose time is over, by the server's clock, is deleted by a contender that wants the lock",
		Open: openRow(true), Has: Has{"no", "no", "<https://mariadb.com/kb/en/insert/>"}},
	{ID: "mariadb-get-lock", Title: "MariaDB GET_LOCK", Server: MariaDB, Lasts: true,
		Use:  "`GET_LOCK` and `RELEASE_LOCK` on a connection of its own",
		Open: openGetLock, Has: Has{"no", "no", "<https://mariadb.com/kb/en/get_lock/>"}},
	{ID: "postgres-advisory", Title: "PostgreSQL advisory lock", Server: PostgreSQL, Lasts: true,
		Use:  "`pg_advisory_lock` and `pg_advisory_unlock` on a pgx connection of its own",
		Open: openAdvisory, Has: Has{"yes (shared)", "no", "<https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS>"}},
}

// poll repeats try until it ends otherwise than with ErrHeld.
func poll(ctx context.Context, try func(ctx context.Context) (Hold, error)) (Hold, error) {
	for {
		hold, err := try(ctx)
		if !errors.Is(err, ErrHeld) {
			return hold, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
}

// untold is a hold without re-entry, whose client never reports a loss.
type untold struct {
	release func(ctx context.Context) error
}

func (untold) Lost() error                         { return nil }
func (untold) Reenter(context.Context) error       { return ErrNone }
func (h untold) Release(ctx context.Context) error { return h.release(ctx) }
