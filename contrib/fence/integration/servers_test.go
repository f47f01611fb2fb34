package integration

import (
	"database/sql"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/compare/servers"
	"github.com/go-curator/curator/contrib/fence"
	fenceredis "github.com/go-curator/curator/contrib/fence/redis"
	"github.com/go-curator/curator/contrib/fence/redis/redistest"
	fencesql "github.com/go-curator/curator/contrib/fence/sql"
	"github.com/go-curator/curator/contrib/fence/sql/sqltest"
)

// home creates a directory that servers can use that do not run as root.
func home(t *testing.T) string {
	dir, err := os.MkdirTemp("", "fence-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// open opens a database until the end of the test.
func open(t *testing.T, driver, source string) *sql.DB {
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxIdleConns(8)
	return db
}

var levels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	server, err := servers.Start("mariadb", home(t), servers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "tcp", server.Addrs()[0]
	root := open(t, "mysql", config.FormatDSN())
	for name, change := range map[string]func(*mysql.Config){
		"changed_rows": func(*mysql.Config) {},
		"found_rows":   func(c *mysql.Config) { c.ClientFoundRows = true },
		"in_the_text":  func(c *mysql.Config) { c.InterpolateParams = true },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := root.ExecContext(t.Context(), "CREATE DATABASE "+name)
			require.NoError(t, err)
			with := *config
			with.DBName = name
			change(&with)
			sqltest.Run(t, sqltest.Database{DB: open(t, "mysql", with.FormatDSN()), Dialect: fencesql.MySQL,
				Levels: levels, Waits: true, Again: func(err error) bool {
					const deadlock, changed = 1213, 1020
					var answer *mysql.MySQLError
					return errors.As(err, &answer) && (answer.Number == deadlock || answer.Number == changed)
				}})
		})
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server, err := servers.Start("postgresql", home(t), servers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	// Durability does not matter here.
	db := open(t, "pgx", "postgres://postgres@"+server.Addrs()[0]+"/postgres?sslmode=disable&options=-csynchronous_commit%3Doff")
	sqltest.Run(t, sqltest.Database{DB: db, Dialect: fencesql.PostgreSQL, Levels: levels, Waits: true,
		Again: func(err error) bool {
			var answer *pgconn.PgError
			return errors.As(err, &answer) && (answer.Code == "40001" || answer.Code == "40P01")
		}})
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server, err := servers.Start("redis", home(t), servers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client := redis.NewClient(&redis.Options{Addr: server.Addrs()[0]})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	redistest.Run(t, client)

	fences := fenceredis.New(client)
	require.NoError(t, fences.Admit(t.Context(), "kept", 23))
	require.NoError(t, server.Kill(0))
	require.NoError(t, server.Start(0))
	require.Eventually(t, func() bool { return client.Ping(t.Context()).Err() == nil }, time.Minute, 10*time.Millisecond)
	assert.ErrorIs(t, fences.Admit(t.Context(), "kept", 17), fence.ErrOutdated, "as durable as the data")
}

// A cluster refuses a call whose keys are not in one slot.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	server, err := servers.Start("redis", home(t), servers.Options{Cluster: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: server.Addrs()})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	err = client.Eval(t.Context(), "return 1", []string{"a", "b"}).Err()
	require.ErrorContains(t, err, "CROSSSLOT")
	redistest.Run(t, client)
}
