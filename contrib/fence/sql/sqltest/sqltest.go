// Package sqltest has the tests that the fence has to pass on each database: SQLite in this module, MariaDB and
// PostgreSQL in contrib/fence/integration.
package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
	fencesql "github.com/go-curator/curator/contrib/fence/sql"
)

// Database is the database under test.
type Database struct {
	DB      *sql.DB
	Dialect fencesql.Dialect
	// Levels are the levels of isolation to test.
	Levels []sql.IsolationLevel
	// Waits is set if a second writer waits for the first, so that two transactions can be open at the same time.
	Waits bool
	// Again reports whether a transaction that has failed with an error should be repeated; nil if none should.
	Again func(error) bool
}

// Run runs all tests. It makes tables.
func Run(t *testing.T, d Database) {
	fences := fencesql.New(d.Dialect)
	t.Run("Migrate", func(t *testing.T) { d.migrate(t) })
	require.NoError(t, fences.Migrate(t.Context(), d.DB))
	for _, level := range d.Levels {
		t.Run(level.String(), func(t *testing.T) {
			b := bench{d, fences, level, nil}
			t.Run("LateWrite", b.lateWrite)
			t.Run("Names", b.names)
			if d.Waits {
				t.Run("Waits", b.waits)
				t.Run("FirstInsertion", b.firstInsertion)
			}
			t.Run("Schedules", b.schedules)
		})
	}
	t.Run("Store", func(t *testing.T) { d.store(t, fences) })
}

func (d Database) migrate(t *testing.T) {
	const table = "migrated"
	f := fencesql.New(d.Dialect, fencesql.WithTable(table))
	var all sync.WaitGroup
	for range 4 { // services that start at the same time
		all.Go(func() { assert.NoError(t, f.Migrate(t.Context(), d.DB)) })
	}
	all.Wait()
	require.NoError(t, f.Migrate(t.Context(), d.DB))
	_, err := d.DB.ExecContext(t.Context(), "UPDATE "+table+" SET token = 99 WHERE resource = ''")
	require.NoError(t, err)
	assert.ErrorIs(t, f.Migrate(t.Context(), d.DB), fencesql.ErrSchema)
}

func (d Database) store(t *testing.T, fences *fencesql.Fence) {
	store := fences.Store(d.DB)
	require.NoError(t, store.Admit(t.Context(), "store", 5))
	require.NoError(t, store.Admit(t.Context(), "store", 5))
	require.NoError(t, store.Admit(t.Context(), "store", 6))
	assert.ErrorIs(t, store.Admit(t.Context(), "store", 5), fence.ErrOutdated)
	assert.ErrorIs(t, store.Admit(t.Context(), "", 5), fence.ErrBadArguments)
	ended, end := context.WithCancel(t.Context())
	end()
	assert.ErrorIs(t, store.Admit(ended, "store", 7), context.Canceled)
}

// bench runs the tests of one level of isolation. It is a fencetest.Store.
type bench struct {
	d      Database
	fences *fencesql.Fence
	level  sql.IsolationLevel
	open   func(context.Context, *sql.Tx, string, int64) error // called in place of Guard; nil: Guard is called
}

func (b bench) begin(t *testing.T) *sql.Tx {
	tx, err := b.d.DB.BeginTx(t.Context(), &sql.TxOptions{Isolation: b.level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// once calls Guard in a separate transaction, and commits that.
func (b bench) once(t *testing.T, resource string, token int64) error {
	tx := b.begin(t)
	if err := b.fences.Guard(t.Context(), tx, resource, token); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (b bench) lateWrite(t *testing.T) {
	resource := fmt.Sprint("late-", b.level)
	require.NoError(t, b.once(t, resource, 10))
	require.NoError(t, b.once(t, resource, 10), "the same holder")
	require.NoError(t, b.once(t, resource, 12))
	require.NoError(t, b.once(t, resource, 12))
	err := b.once(t, resource, 10)
	var outdated *fence.OutdatedError
	require.ErrorAs(t, err, &outdated)
	assert.Equal(t, fence.OutdatedError{Resource: resource, Token: 10, Newest: 12}, *outdated)
	require.NoError(t, b.once(t, resource, 1<<62), "zxids are large")
	assert.ErrorIs(t, b.once(t, resource, 12), fence.ErrOutdated)

	tx := b.begin(t)
	require.NoError(t, b.fences.Guard(t.Context(), tx, resource+"-rolled", 10))
	require.NoError(t, tx.Rollback())
	require.NoError(t, b.once(t, resource+"-rolled", 9), "10 has written nothing")

	tx = b.begin(t)
	require.NoError(t, b.fences.Guard(t.Context(), tx, resource+"-twice", 10))
	require.NoError(t, b.fences.Guard(t.Context(), tx, resource+"-twice", 10), "in one transaction")
	require.NoError(t, b.fences.Guard(t.Context(), tx, resource+"-other", 3))
	require.NoError(t, tx.Commit())
}

func (b bench) names(t *testing.T) {
	prefix := fmt.Sprint(b.level, "-")
	names := []string{"orders", "Orders", "orders ", " orders", "örders", "'; --", "%", "\\",
		strings.Repeat("x", 255-len(prefix))}
	for i, name := range names { // each with a smaller token than those before
		require.NoError(t, b.once(t, prefix+name, int64(100-i)), "%q is not any of the others", name)
	}
	for i, name := range names {
		assert.ErrorIs(t, b.once(t, prefix+name, int64(99-i)), fence.ErrOutdated, name)
	}
}

// waits tests that a Guard waits for the end of a transaction that has guarded the same resource.
func (b bench) waits(t *testing.T) {
	for _, first := range []int64{10, 20} { // the second has 15
		for _, commit := range []bool{true, false} {
			resource := fmt.Sprintf("waits-%v-%d-%v", b.level, first, commit)
			require.NoError(t, b.once(t, resource, 5))
			tx := b.begin(t)
			require.NoError(t, b.fences.Guard(t.Context(), tx, resource, first))
			b.meets(t, tx, resource, commit, commit && first > 15)
		}
	}
}

// firstInsertion is waits for a resource without a row.
func (b bench) firstInsertion(t *testing.T) {
	for _, first := range []int64{10, 20} {
		for _, commit := range []bool{true, false} {
			resource := fmt.Sprintf("first-%v-%d-%v", b.level, first, commit)
			tx := b.begin(t)
			require.NoError(t, b.fences.Guard(t.Context(), tx, resource, first))
			b.meets(t, tx, resource, commit, commit && first > 15)
		}
	}
}

// meets calls Guard with token 15 while tx is open, and checks its result after the end of tx.
func (b bench) meets(t *testing.T, tx *sql.Tx, resource string, commit, refused bool) {
	t.Helper()
	second := make(chan error, 1)
	go func() {
		for {
			err := b.once(t, resource, 15)
			if err == nil || b.d.Again == nil || !b.d.Again(err) {
				second <- err
				return
			}
		}
	}()
	select {
	case err := <-second:
		t.Fatalf("the second did not wait for the first: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if commit {
		require.NoError(t, tx.Commit())
	} else {
		require.NoError(t, tx.Rollback())
	}
	err := <-second
	if refused {
		assert.ErrorIs(t, err, fence.ErrOutdated)
	} else {
		assert.NoError(t, err)
	}
}

func (b bench) schedules(t *testing.T) {
	_, err := b.d.DB.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS fence_logs (resource VARCHAR(64) NOT NULL, "+
		"n INTEGER NOT NULL, entry VARCHAR(64) NOT NULL, PRIMARY KEY (resource, n))")
	require.NoError(t, err)
	_, err = b.d.DB.ExecContext(t.Context(), "DELETE FROM fence_logs")
	require.NoError(t, err)
	_, err = b.d.DB.ExecContext(t.Context(), "DELETE FROM "+fencesql.DefaultTable+" WHERE resource <> ''")
	require.NoError(t, err)
	fencetest.Run(t, b)
	b.open = func(context.Context, *sql.Tx, string, int64) error { return nil }
	fencetest.Catches(t, b)
}

var unfenced sync.Mutex

// Append implements fencetest.Store. It repeats the transaction as a user would.
func (b bench) Append(ctx context.Context, resource string, token int64, entry string) error {
	if b.open != nil { // without Guard, only this lock keeps two writes from choosing the same n
		unfenced.Lock()
		defer unfenced.Unlock()
	}
	for {
		err := b.append(ctx, resource, token, entry)
		if err == nil || b.d.Again == nil || !b.d.Again(err) {
			return err
		}
	}
}

func (b bench) append(ctx context.Context, resource string, token int64, entry string) error {
	tx, err := b.d.DB.BeginTx(ctx, &sql.TxOptions{Isolation: b.level})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	guard := b.fences.Guard
	if b.open != nil {
		guard = b.open
	}
	if err := guard(ctx, tx, resource, token); err != nil {
		return err
	}
	// A read and a write that no database orders by itself; the fence does.
	var n int
	query, insert := "SELECT COUNT(*) FROM fence_logs WHERE resource = $1", "INSERT INTO fence_logs VALUES ($1, $2, $3)"
	if b.d.Dialect == fencesql.MySQL {
		query, insert = "SELECT COUNT(*) FROM fence_logs WHERE resource = ?", "INSERT INTO fence_logs VALUES (?, ?, ?)"
	}
	if err := tx.QueryRowContext(ctx, query, resource).Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insert, resource, n, entry); err != nil {
		return err
	}
	return tx.Commit()
}

// Log implements fencetest.Store.
func (b bench) Log(ctx context.Context, resource string) (entries []string, err error) {
	query := "SELECT entry FROM fence_logs WHERE resource = $1 ORDER BY n"
	if b.d.Dialect == fencesql.MySQL {
		query = "SELECT entry FROM fence_logs WHERE resource = ? ORDER BY n"
	}
	rows, err := b.d.DB.QueryContext(ctx, query, resource)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var entry string
		if err := rows.Scan(&entry); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, rows.Err()
}
