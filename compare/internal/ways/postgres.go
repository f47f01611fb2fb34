package ways

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// key is the lock's number: PostgreSQL's locks have no names.
const key = 4711

// advisory is pg_advisory_lock, which belongs to the connection.
type advisory struct {
	url  string
	conn *pgx.Conn
}

func openAdvisory(ctx context.Context, c Config) (Way, error) {
	w := &advisory{url: "postgres://postgres@" + c.Servers[0] + "/postgres?sslmode=disable"}
	return w, w.connect(ctx)
}

func (w *advisory) connect(ctx context.Context) (err error) {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	w.conn, err = pgx.Connect(ctx, w.url)
	return err
}

func (w *advisory) Acquire(ctx context.Context) (Hold, error) {
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	if _, err := w.conn.Exec(ctx, "SELECT pg_advisory_lock($1)", key); err != nil {
		return nil, err
	}
	return advisoryLock{w.conn}, nil
}

func (w *advisory) Try(ctx context.Context) (Hold, error) {
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	return advisoryLock{w.conn}, try(ctx, w.conn)
}

func try(ctx context.Context, conn *pgx.Conn) error {
	got := false
	err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", key).Scan(&got)
	if err == nil && !got {
		return ErrHeld
	}
	return err
}

func (w *advisory) Close() error { return w.conn.Close(context.Background()) }

type advisoryLock struct{ conn *pgx.Conn }

func (advisoryLock) Lost() error { return nil }

func (h advisoryLock) Reenter(ctx context.Context) error {
	if err := try(ctx, h.conn); err != nil {
		return errors.Join(ErrNone, err)
	}
	return h.Release(ctx)
}

func (h advisoryLock) Release(ctx context.Context) error {
	done := false
	err := h.conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", key).Scan(&done)
	if err == nil && !done {
		return errGone
	}
	return err
}
