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

// epochDialer returns the dialer of one epoch. It makes no attempt before notBefore, and uses TLS if configured.
func (c *clientCore) epochDialer(notBefore time.Time) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := sleepUntil(ctx, notBefore); err != nil {
			return nil, fmt.Errorf("%w: %w", errTooEarly, err)
		}
		var conn net.Conn
		open, err := false, apart.ErrNoReturn
		apart.Call(func() {
			if conn, err = c.cfg.dialServer(ctx, network, addr, c.log); err == nil {
				open = isUnprotected(conn)
			}
		})
		if err != nil {
			return nil, err
		}
		if open && len(c.cfg.credentials) > 0 && c.clearTextLogged.CompareAndSwap(false, true) {
			c.log.Warn("sending the credentials of WithAuth, passwords included, unencrypted: use WithTLS "+
				"or WithTLSFiles", "server", addr)
		}
		return conn, nil
	}
}

// isUnprotected reports whether a connection leaves the machine unencrypted. It can only guess for a user's dialer.
func isUnprotected(conn net.Conn) bool {
	if _, encrypted := conn.(*tls.Conn); encrypted {
		return false
	}
	to, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !to.IP.IsLoopback()
}

// dialServer calls user functions: the dialer, and the callbacks of a TLS configuration.
func (o *options) dialServer(ctx context.Context, network, addr string, log *slog.Logger) (net.Conn, error) {
	cfg := o.currentTLSConfig(log)
	conn, err := o.dial(ctx, network, addr)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, invalidOption("WithDialer", "the dialer has returned neither a connection nor an error")
	case cfg != nil:
		return handshakeTLS(ctx, conn, cfg, addr)
	}
	return conn, nil
}

// errTooEarly marks an attempt that was not made because its time has not come. It is not a failure.
var errTooEarly = errors.New("not connecting until the previous session has ended")

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

// usesEncryption reports whether connections are made with TLS.
func (o *options) usesEncryption() bool { return o.tls != nil || o.tlsFiles != nil }

// currentTLSConfig returns the configuration for a new connection; nil for none.
func (o *options) currentTLSConfig(log *slog.Logger) *tls.Config {
	if o.tlsFiles != nil {
		return o.tlsFiles.currentConfig(o.tls, log)
	}
	return o.tls
}
