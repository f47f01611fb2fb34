package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
		err := apart.ErrNoReturn
		apart.Call(func() { conn, err = c.cfg.connect(ctx, network, addr) })
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
}

// connect calls the user's functions: the dialer, and what a TLS configuration has of them.
func (o *options) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	cfg := o.tlsNow()
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

// errTooEarly marks an attempt that was not made, since the time for it has not come: it is no trouble.
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
