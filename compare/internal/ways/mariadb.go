package ways

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log"

	"github.com/go-sql-driver/mysql"
)

func openMariaDB(ctx context.Context, c Config) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "tcp", c.Servers[0]
	config.DBName = "mysql"
	config.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// row is a row whose name is unique: the contender that has inserted it holds the lock.
type row struct {
	db      *sql.DB
	config  Config
	expires bool
}

func openRow(expires bool) func(context.Context, Config) (Way, error) {
	return func(ctx context.Context, c Config) (Way, error) {
		db, err := openMariaDB(ctx, c)
		if err != nil {
			return nil, err
		}
		_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS locks
			(name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL, until DATETIME(3) NULL) ENGINE=InnoDB`)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &row{db, c, expires}, nil
	}
}

func (w *row) Acquire(ctx context.Context) (Hold, error) { return poll(ctx, w.Try) }

func (w *row) Try(ctx context.Context) (Hold, error) {
	owner := unique(w.config.ID)
	if w.expires {
		if _, err := w.db.ExecContext(ctx, "DELETE FROM locks WHERE name = ? AND until < NOW(3)", name); err != nil {
			return nil, held(err)
		}
	}
	_, err := w.db.ExecContext(ctx, "INSERT INTO locks VALUES (?, ?, NOW(3) + INTERVAL ? SECOND)", name, owner,
		w.config.Lease.Seconds())
	if err != nil {
		return nil, held(err)
	}
	return untold{func(ctx context.Context) error {
		result, err := w.db.ExecContext(ctx, "DELETE FROM locks WHERE name = ? AND owner = ?", name, owner)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n != 1 {
			return errors.Join(errGone, err)
		}
		return nil
	}}, nil
}

// held translates the server's errors for a lock that others hold.
func held(err error) error {
	const duplicate, waited, deadlock = 1062, 1205, 1213
	var answer *mysql.MySQLError
	if errors.As(err, &answer) && (answer.Number == duplicate || answer.Number == waited || answer.Number == deadlock) {
		return ErrHeld
	}
	return err
}

func (w *row) Close() error { return w.db.Close() }

// getLock is GET_LOCK, which belongs to the connection.
type getLock struct{ db *sql.DB }

func openGetLock(ctx context.Context, c Config) (Way, error) {
	db, err := openMariaDB(ctx, c)
	if err != nil {
		return nil, err
	}
	return &getLock{db}, nil
}

func (w *getLock) Acquire(ctx context.Context) (Hold, error) {
	for {
		hold, err := w.wait(ctx, 10)
		if !errors.Is(err, ErrHeld) {
			return hold, err
		}
	}
}

func (w *getLock) Try(ctx context.Context) (Hold, error) { return w.wait(ctx, 0) }

func (w *getLock) wait(ctx context.Context, seconds int) (Hold, error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, seconds).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = ErrHeld
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return getLocked{conn}, nil
}

func (w *getLock) Close() error { return w.db.Close() }

type getLocked struct{ conn *sql.Conn }

func (getLocked) Lost() error { return nil }

func (h getLocked) Reenter(ctx context.Context) error {
	var got sql.NullInt64
	if err := h.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", name).Scan(&got); err != nil || got.Int64 != 1 {
		return errors.Join(ErrNone, err)
	}
	return h.unlock(ctx)
}

func (h getLocked) unlock(ctx context.Context) error {
	var done sql.NullInt64
	err := h.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", name).Scan(&done)
	if err == nil && done.Int64 != 1 {
		return errGone
	}
	return err
}

func (h getLocked) Release(ctx context.Context) error {
	return errors.Join(h.unlock(ctx), h.conn.Close())
}
