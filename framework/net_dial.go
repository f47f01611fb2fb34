package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/go-curator/curator/internal/apart"
)

// dialer returns the dialer of one epoch: no attempt before notBefore, TLS if asked for.
func (c *core) dialer(notBefore time.Time) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := sleepUntil(ctx, notBefore); err != nil {
			return nil, fmt.Errorf("%w: %w", errTooEarly, err)
		}
		var conn net.Conn
		open, err := false, apart.ErrNoReturn
		apart.Call(func() {
			if conn, err = c.cfg.connect(ctx, network, addr, c.log); err == nil {
				open = overheard(conn)
			}
		})
		if err != nil {
			return nil, err
		}
		if open && len(c.cfg.credentials) > 0 && c.clear.CompareAndSwap(false, true) {
			c.log.Warn("the credentials of WithAuth go to the servers in clear, passwords included: use WithTLS or "+
				"WithTLSFiles", "server", addr)
		}
		return conn, nil
	}
}

// overheard says whether a connection leaves the machine unencrypted, as far as can be told of a user's
// dialer.
func overheard(conn net.Conn) bool {
	if _, encrypted := conn.(*tls.Conn); encrypted {
		return false
	}
	to, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !to.IP.IsLoopback()
}

// connect calls the user's functions: the dialer, and those of a TLS configuration.
func (o *options) connect(ctx context.Context, network, addr string, log *slog.Logger) (net.Conn, error) {
	cfg := o.tlsNow(log)
	conn, err := o.dial(ctx, network, addr)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, invalid("WithDialer", "the dialer has returned neither a connection nor an error")
	case cfg != nil:
		return encrypt(ctx, conn, cfg, addr)
	}
	return conn, nil
}

// errTooEarly marks an attempt that was not made because it is not time yet. It is no trouble.
var errTooEarly = errors.New("waiting for the end of the session before")

func sleepUntil(ctx context.Context, t time.Time) error {
	wait := time.Until(t)
	if t.IsZero() || wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// encrypt shakes hands, and closes conn when that fails.
func encrypt(ctx context.Context, conn net.Conn, cfg *tls.Config, addr string) (net.Conn, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.ServerName = host
		}
	}
	secure, done := tls.Client(conn, cfg), false
	defer func() {
		if !done {
			conn.Close()
		}
	}()
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, tlsTrouble(fmt.Errorf("%w: %w", errHandshake, err))
	}
	done = true
	return secure, nil
}
