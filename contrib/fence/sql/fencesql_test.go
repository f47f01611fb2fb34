package fencesql_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/go-curator/curator/contrib/fence"
	fencesql "github.com/go-curator/curator/contrib/fence/sql"
	"github.com/go-curator/curator/contrib/fence/sql/sqltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+
		"?_pragma=busy_timeout(60000)&_pragma=synchronous(off)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), "PRAGMA journal_mode = wal") // the file keeps the mode; concurrent changes are refused
	require.NoError(t, err)
	return db
}

func TestSQLite(t *testing.T) {
	sqltest.Run(t, sqltest.Database{DB: open(t), Dialect: fencesql.SQLite, Waits: true,
		Levels: []sql.IsolationLevel{sql.LevelDefault}})
}

// Services of one machine that start at the same time create the table once, and no service gets an error.
func TestSQLiteIsMigratedByManyAtOnce(t *testing.T) {
	for range 30 {
		db := open(t)
		f := fencesql.New(fencesql.SQLite)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { assert.NoError(t, f.Migrate(t.Context(), db)) })
		}
		all.Wait()
		require.NoError(t, f.Store(db).Admit(t.Context(), "orders", 1))
	}
}

func TestArguments(t *testing.T) {
	db := open(t)
	for _, f := range []*fencesql.Fence{nil, {}, fencesql.New(0), fencesql.New(4),
		fencesql.New(fencesql.SQLite, fencesql.WithTable("x; DROP TABLE y")), fencesql.New(fencesql.SQLite, fencesql.WithTable(""))} {
		assert.ErrorIs(t, f.Migrate(t.Context(), db), fence.ErrBadArguments)
		assert.ErrorIs(t, f.Guard(t.Context(), nil, "orders", 1), fence.ErrBadArguments)
		assert.ErrorIs(t, f.Store(db).Admit(t.Context(), "orders", 1), fence.ErrBadArguments)
	}
	f := fencesql.New(fencesql.SQLite, nil, fencesql.WithTable("main.tokens"))
	require.NoError(t, f.Migrate(t.Context(), db))
	require.NoError(t, f.Store(db).Admit(t.Context(), "orders", 1))
	assert.ErrorIs(t, f.Store(db).Admit(t.Context(), "orders", 0), fence.ErrBadArguments)

	assert.ErrorIs(t, f.Guard(t.Context(), nil, "orders", 1), fence.ErrBadArguments)
	missing := fencesql.New(fencesql.SQLite, fencesql.WithTable("nowhere"))
	assert.ErrorContains(t, missing.Store(db).Admit(t.Context(), "orders", 1), "no such table")
	assert.Equal(t, "[MySQL PostgreSQL SQLite Dialect(9)]",
		fmt.Sprint([]fencesql.Dialect{fencesql.MySQL, fencesql.PostgreSQL, fencesql.SQLite, 9}))
}
