package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// schemaVersion is the version of the table that this package makes. The table has it as the token of the empty name,
// which is not a valid resource.
const schemaVersion = 1

// advisoryLockKey is the key of PostgreSQL's lock that Migrate takes: without it two CREATE … IF NOT EXISTS at the same
// time would fail.
const advisoryLockKey = 7_203_441_903_115_523

// Migrate makes the table if it is missing, or changes one of an older version of this package; there is one version so
// far. It may be called by several processes at the same time, and any number of times. It does not change a table of a
// newer version: then the error matches [ErrSchema].
//
// It needs permission to create tables, which Guard does not: call it in your own migrations if services have no such
// permission.
func (f *Fence) Migrate(ctx context.Context, db *sql.DB) (err error) {
	if err := f.checkArguments("x", 1); err != nil {
		return err
	}
	tx, err := f.beginMigration(ctx, db)
	if err != nil {
		return fmt.Errorf("fence: making the table: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreError(tx.Rollback(), sql.ErrTxDone))
		}
	}()
	if f.dialect == PostgreSQL {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(advisoryLockKey)); err != nil {
			return fmt.Errorf("fence: making the table: %w", err)
		}
	}
	for _, statement := range []string{f.sql.createTable, f.sql.insertVersion} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("fence: making the table: %w", err)
		}
	}
	var version int64
	if err := tx.QueryRowContext(ctx, f.sql.readVersion).Scan(&version); err != nil {
		return fmt.Errorf("fence: reading the table's version: %w", err)
	}
	if version > schemaVersion {
		return fmt.Errorf("fence: %w: version %d, this package knows %d", ErrSchema, version, schemaVersion)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence: making the table: %w", err)
	}
	return nil
}

// migration is the transaction of a Migrate.
type migration interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
	Rollback() error
}

// beginMigration begins the transaction of Migrate. SQLite fails without a wait when a transaction first reads, as
// CREATE … IF NOT EXISTS does, and then writes while another transaction writes. So there the transaction takes the
// right to write at its beginning, which waits.
func (f *Fence) beginMigration(ctx context.Context, db *sql.DB) (migration, error) {
	if f.dialect != SQLite {
		return db.BeginTx(ctx, nil)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &immediateTx{conn, context.WithoutCancel(ctx)}, nil
}

// immediateTx is a transaction of SQLite that was begun with BEGIN IMMEDIATE, on a connection from the pool. ctx does
// not end, since the transaction must have ended when the connection is used again.
type immediateTx struct {
	*sql.Conn
	ctx context.Context
}

func (t *immediateTx) Commit() error { return t.end("COMMIT") }

// Rollback returns sql.ErrTxDone after a Commit that has succeeded.
func (t *immediateTx) Rollback() error { return t.end("ROLLBACK") }

func (t *immediateTx) end(how string) error {
	if t.Conn == nil {
		return sql.ErrTxDone
	}
	_, err := t.ExecContext(t.ctx, how)
	if err == nil || how == "ROLLBACK" {
		err = errors.Join(err, t.Close())
		t.Conn = nil
	}
	return err
}
