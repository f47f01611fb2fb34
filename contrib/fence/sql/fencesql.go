// Package fencesql fences writes to MariaDB, MySQL, PostgreSQL and SQLite, in the transaction of the write.
//
//	var fences = fencesql.New(fencesql.PostgreSQL)
//
//	err := fences.Migrate(ctx, db) // once, at the start or in a deployment
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	token, err := fence.From(ctx)
//	…
//	if err := fences.Guard(ctx, tx, "orders", token); err != nil {
//		return errors.Join(err, tx.Rollback())
//	}
//	// the writes
//	err = tx.Commit()
//
// It is a separate module. It brings no driver.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-curator/curator/contrib/fence"
)

// Dialect is the SQL of a database.
type Dialect int8

// The dialects. MySQL includes MariaDB.
const (
	MySQL      Dialect = iota + 1 // from 5.7; MariaDB from 10.3; tables are InnoDB's
	PostgreSQL                    // from 9.5
	SQLite                        // from 3.24
)

// String returns the name of the database.
func (d Dialect) String() string {
	switch d {
	case MySQL:
		return "MySQL"
	case PostgreSQL:
		return "PostgreSQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int8(d))
}

// DefaultTable is the name of the table.
const DefaultTable = "curator_fence"

// ErrSchema means that [Fence.Migrate] has found the table of a newer version of this package.
var ErrSchema = errors.New("the table of fencing tokens has a newer schema")

// Fence uses a table with the newest token of each resource. A row is never deleted. Safe for concurrent use. It has no
// state but its configuration.
type Fence struct {
	dialect Dialect
	sql     statements
	err     error // of the arguments of New
}

// Option changes what [New] makes. If one is given several times the last counts.
type Option func(*config)

type config struct{ table string }

// WithTable names the table, with or without a schema before it: letters, digits and underscores. Default
// [DefaultTable].
func WithTable(name string) Option { return func(c *config) { c.table = name } }

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// New makes a Fence. It uses no database. If an argument is wrong, every method returns an error that matches
// fence.ErrBadArguments.
func New(d Dialect, opts ...Option) *Fence {
	c := config{table: DefaultTable}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	f := &Fence{dialect: d}
	switch {
	case d < MySQL || d > SQLite:
		f.err = fmt.Errorf("fence: %w: there is no %v", fence.ErrBadArguments, d)
	case !tableName.MatchString(c.table):
		f.err = fmt.Errorf("fence: %w: %q is no name of a table", fence.ErrBadArguments, c.table)
	default:
		f.sql = statementsFor(d, c.table)
	}
	return f
}

// Guard stores the token, as part of the transaction, unless a larger token is stored for the resource: then the error
// matches fence.ErrOutdated, with errors.As *fence.OutdatedError, and the transaction has to be rolled back. A token
// may be used several times.
//
// Make it the first statement of the transaction, so that later reads see the writes of the former holders. Guard locks
// the row of the resource until the transaction ends: a Guard in another transaction waits for that end, and then sees
// whether this transaction was committed. So a transaction that was guarded is committed before another one with a
// newer token is guarded, or not at all. This is so at every level of isolation from READ COMMITTED on.
//
// Other errors are the database's; the transaction has to be rolled back and may be repeated. Such errors are a
// deadlock, if several transactions are the first to guard a resource, or guard several resources in different orders
// (MySQL); a serialization failure at REPEATABLE READ and above (PostgreSQL's 40001); a database that is locked
// (SQLite).
//
// Guard needs SELECT, INSERT and UPDATE on the table.
func (f *Fence) Guard(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	if err := f.checkArguments(resource, token); err != nil {
		return err
	}
	if tx == nil {
		return fmt.Errorf("fence: %w: the transaction is nil", fence.ErrBadArguments)
	}
	args := []any{resource, token}
	if f.dialect == MySQL {
		args = []any{resource, token, token, token}
	}
	result, err := tx.ExecContext(ctx, f.sql.guard, args...)
	if err != nil {
		return failed("guarding", resource, err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return failed("guarding", resource, err)
	}
	if rows == f.sql.passedRows {
		return nil
	}
	// The token is outdated or, with MySQL, this is perhaps the resource's first guard: the row, which is locked, shows
	// it.
	var newest int64
	if err := tx.QueryRowContext(ctx, f.sql.readNewest, resource).Scan(&newest); err != nil {
		return failed("reading the token of", resource, err)
	}
	if f.dialect == MySQL && newest == token {
		return nil
	}
	return fmt.Errorf("fence: %w", &fence.OutdatedError{Resource: resource, Token: token, Newest: newest})
}

func (f *Fence) checkArguments(resource string, token int64) error {
	if f == nil || f.dialect == 0 && f.err == nil {
		return fmt.Errorf("fence: %w: the Fence was not made with New", fence.ErrBadArguments)
	}
	if f.err != nil {
		return f.err
	}
	return fence.Check(resource, token)
}

func failed(verb, resource string, err error) error {
	return fmt.Errorf("fence: %s %q: %w", verb, resource, err)
}

// Store returns the table as a store for a fence.Gate: each Admit is a separate transaction, and waits for the
// transactions that guard the same resource.
func (f *Fence) Store(db *sql.DB) fence.Store { return store{f, db} }

type store struct {
	fence *Fence
	db    *sql.DB
}

func (s store) Admit(ctx context.Context, resource string, token int64) (err error) {
	if err := s.fence.checkArguments(resource, token); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return failed("guarding", resource, err)
	}
	if err := s.fence.Guard(ctx, tx, resource, token); err != nil {
		return errors.Join(err, ignoreError(tx.Rollback(), sql.ErrTxDone)) // the end of ctx may have ended the transaction
	}
	if err := tx.Commit(); err != nil {
		return failed("guarding", resource, err)
	}
	return nil
}

// ignoreError returns err, or nil if it matches ignored.
func ignoreError(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// statements has the SQL of a dialect for a table. guard is one upsert, which locks the resource's row until the
// transaction ends. Two statements would not do: a SELECT … FOR UPDATE locks nothing if the row does not exist, and
// after an INSERT IGNORE two transactions that update the same row deadlock.
type statements struct {
	createTable, insertVersion, readVersion string
	guard, readNewest                       string
	passedRows                              int64 // the number of affected rows that only a guard that passes can have
}

func statementsFor(d Dialect, table string) statements {
	var s statements
	switch d {
	case MySQL:
		// VARBINARY, so that names are compared byte by byte. The counter guards is for the number of affected rows,
		// which is 1 for an INSERT, 2 for a change of the row, and 0 or 1 (a setting of the client) if nothing changes.
		// A guard with the token that is stored would change nothing, as a refused one does: the counter makes it a
		// change. The assignments are made from left to right, so the counter is compared with the old token.
		s.createTable = `CREATE TABLE IF NOT EXISTS TABLE_ (resource VARBINARY(255) NOT NULL PRIMARY KEY,
			token BIGINT NOT NULL, guards BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB`
		s.insertVersion = `INSERT IGNORE INTO TABLE_ (resource, token) VALUES ('', 1)`
		s.guard = `INSERT INTO TABLE_ (resource, token, guards) VALUES (?, ?, 1)
			ON DUPLICATE KEY UPDATE guards = guards + IF(token <= ?, 1, 0), token = GREATEST(token, ?)`
		s.readNewest = `SELECT token FROM TABLE_ WHERE resource = ? FOR UPDATE`
		s.passedRows = 2
	case PostgreSQL, SQLite:
		s.createTable = `CREATE TABLE IF NOT EXISTS TABLE_ (resource TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL)`
		s.insertVersion = `INSERT INTO TABLE_ (resource, token) VALUES ('', 1) ON CONFLICT DO NOTHING`
		s.guard = `INSERT INTO TABLE_ AS f (resource, token) VALUES ($1, $2)
			ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`
		s.readNewest = `SELECT token FROM TABLE_ WHERE resource = $1`
		s.passedRows = 1
	}
	s.readVersion = `SELECT token FROM TABLE_ WHERE resource = ''`
	for _, text := range []*string{&s.createTable, &s.insertVersion, &s.readVersion, &s.guard, &s.readNewest} {
		*text = strings.ReplaceAll(*text, "TABLE_", table)
	}
	return s
}
