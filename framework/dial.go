package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// dialer returns the dialer of one epoch: no attempt before notBefore, TLS if asked for.
func (c *core) dialer(notBefore time.Time) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := sleepUntil(ctx, notBefore); err != nil {
			return nil, fmt.Errorf("%w: %w", errTooEarly, err)
		}
		cfg := c.cfg.tlsNow()
		conn, err := c.cfg.dial(ctx, network, addr)
		if err == nil && cfg != nil {
			conn, err = encrypt(ctx, conn, cfg, addr)
		}
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
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
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, tlsTrouble(fmt.Errorf("%w: %w", errHandshake, err))
	}
	return secure, nil
}
