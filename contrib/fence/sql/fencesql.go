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

// String is its name.
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

// Fence is a table of the newest token of each resource, with a row for each that was ever guarded. Safe for
// concurrent use. It has no state but its configuration.
type Fence struct {
	dialect Dialect
	sql     statements
	err     error
}

// Option changes what [New] makes. If one is given several times the last counts.
type Option func(*config)

type config struct{ table string }

// WithTable names the table, with or without a schema before it: letters, digits and underscores. Default
// [DefaultTable].
func WithTable(name string) Option { return func(c *config) { c.table = name } }

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// New makes a Fence. It does nothing with a database. If an argument is wrong, every method returns an error
// that matches fence.ErrBadArguments.
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
		f.sql = statementsOf(d, c.table)
	}
	return f
}

// Guard lets the transaction proceed if no larger token was guarded for the resource, and stores the token. Else the
// error matches fence.ErrOutdated, a *fence.OutdatedError, and the transaction has to be rolled back. The same token
// again passes.
//
// Make it the first statement of the transaction, so that later reads see the writes of the former holders. One
// statement decides. It locks the row of the resource until the transaction ends: a Guard with another token waits
// for that, and then sees whether this transaction was committed. So a transaction that was guarded is committed
// before a newer one is guarded, or not at all. It holds at every level of isolation from READ COMMITTED on.
//
// Other errors are the database's, and the transaction has to be rolled back and may be repeated: a deadlock if
// several first guards of a resource, or guards of several resources in different orders, meet (MySQL), a
// serialization failure at REPEATABLE READ and above (PostgreSQL's 40001), a database that is locked (SQLite).
//
// Guard needs SELECT, INSERT and UPDATE on the table.
func (f *Fence) Guard(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	if err := f.ready(resource, token); err != nil {
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
	if rows == f.sql.passed {
		return nil
	}
	// Refused or, with MySQL, possibly the resource's first guard. The row is locked: it has the statement's result.
	var newest int64
	if err := tx.QueryRowContext(ctx, f.sql.newest, resource).Scan(&newest); err != nil {
		return failed("reading the token of", resource, err)
	}
	if f.dialect == MySQL && newest == token {
		return nil
	}
	return fmt.Errorf("fence: %w", &fence.OutdatedError{Resource: resource, Token: token, Newest: newest})
}

func (f *Fence) ready(resource string, token int64) error {
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
	f  *Fence
	db *sql.DB
}

func (s store) Admit(ctx context.Context, resource string, token int64) (err error) {
	if err := s.f.ready(resource, token); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return failed("guarding", resource, err)
	}
	if err := s.f.Guard(ctx, tx, resource, token); err != nil {
		return errors.Join(err, unless(tx.Rollback(), sql.ErrTxDone)) // its context may have ended it
	}
	if err := tx.Commit(); err != nil {
		return failed("guarding", resource, err)
	}
	return nil
}

func unless(err, fine error) error {
	if errors.Is(err, fine) {
		return nil
	}
	return err
}

// statements of a dialect and a table. guard is one upsert, which locks the resource's row until the transaction
// ends: a SELECT … FOR UPDATE locks nothing if the row does not exist, and after an INSERT IGNORE two transactions
// that update the same row deadlock.
type statements struct {
	create, mark, version string
	guard, newest         string
	passed                int64 // how many rows guard affects when it has certainly passed
}

func statementsOf(d Dialect, table string) statements {
	var s statements
	switch d {
	case MySQL:
		// The names are compared byte by byte. The counter makes each pass a change of the row: a statement that
		// changes nothing affects 0 rows, or 1, depending on the client's setting, and so does a refused one. The
		// assignments are made from left to right. An INSERT affects 1 row, a change counts as 2.
		s.create = `CREATE TABLE IF NOT EXISTS TABLE_ (resource VARBINARY(255) NOT NULL PRIMARY KEY,
			token BIGINT NOT NULL, guards BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB`
		s.mark = `INSERT IGNORE INTO TABLE_ (resource, token) VALUES ('', 1)`
		s.guard = `INSERT INTO TABLE_ (resource, token, guards) VALUES (?, ?, 1)
			ON DUPLICATE KEY UPDATE guards = guards + IF(token <= ?, 1, 0), token = GREATEST(token, ?)`
		s.newest = `SELECT token FROM TABLE_ WHERE resource = ? FOR UPDATE`
		s.passed = 2
	case PostgreSQL, SQLite:
		s.create = `CREATE TABLE IF NOT EXISTS TABLE_ (resource TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL)`
		s.mark = `INSERT INTO TABLE_ (resource, token) VALUES ('', 1) ON CONFLICT DO NOTHING`
		s.guard = `INSERT INTO TABLE_ AS f (resource, token) VALUES ($1, $2)
			ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`
		s.newest = `SELECT token FROM TABLE_ WHERE resource = $1`
		s.passed = 1
	}
	s.version = `SELECT token FROM TABLE_ WHERE resource = ''`
	for _, text := range []*string{&s.create, &s.mark, &s.version, &s.guard, &s.newest} {
		*text = strings.ReplaceAll(*text, "TABLE_", table)
	}
	return s
}
