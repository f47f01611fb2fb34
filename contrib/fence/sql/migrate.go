package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// schema is the version of the table that this package makes. The row of the empty name, which is not a valid
// resource, has the version as its token.
const schema = 1

// advisory is the key of the lock that PostgreSQL takes to make the table: two CREATE … IF NOT EXISTS at the same
// time would fail there.
const advisory = 7_203_441_903_115_523

// Migrate makes the table if it is missing, or changes one of an older version of this package; there is one version
// so far. Several processes may call it at the same time, and again. A table of a newer version is not changed:
// [ErrSchema].
//
// It needs the right to create tables, which Guard does not: call it in your own migrations if services lack that.
func (f *Fence) Migrate(ctx context.Context, db *sql.DB) (err error) {
	if err := f.ready("x", 1); err != nil {
		return err
	}
	tx, err := f.begin(ctx, db)
	if err != nil {
		return fmt.Errorf("fence: making the table: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unless(tx.Rollback(), sql.ErrTxDone))
		}
	}()
	if f.dialect == PostgreSQL {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(advisory)); err != nil {
			return fmt.Errorf("fence: making the table: %w", err)
		}
	}
	for _, statement := range []string{f.sql.create, f.sql.mark} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("fence: making the table: %w", err)
		}
	}
	var version int64
	if err := tx.QueryRowContext(ctx, f.sql.version).Scan(&version); err != nil {
		return fmt.Errorf("fence: reading the table's version: %w", err)
	}
	if version > schema {
		return fmt.Errorf("fence: %w: version %d, this package knows %d", ErrSchema, version, schema)
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

// begin begins a transaction that several may begin at the same time. SQLite refuses a transaction, without a wait,
// that first reads, as CREATE … IF NOT EXISTS does, and then writes while others do: there begin takes the right to
// write immediately.
func (f *Fence) begin(ctx context.Context, db *sql.DB) (migration, error) {
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
	return &immediate{conn, context.WithoutCancel(ctx)}, nil
}

// immediate is a transaction on a separate connection. Its end does not depend on a context: the connection goes back
// to the pool.
type immediate struct {
	*sql.Conn
	ctx context.Context
}

func (t *immediate) Commit() error { return t.end("COMMIT") }

// Rollback returns sql.ErrTxDone after a Commit that has succeeded.
func (t *immediate) Rollback() error { return t.end("ROLLBACK") }

func (t *immediate) end(how string) error {
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
