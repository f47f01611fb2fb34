package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/apart"
)

// dialer returns the dialer of one epoch: no attempt before notBefore, TLS if asked for, failures noted for those who wait.
func (c *core) dialer(notBefore time.Time) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := sleepUntil(ctx, notBefore); err != nil {
			return nil, err
		}
		var conn net.Conn
		err := apart.ErrNoReturn
		apart.Call(func() { conn, err = c.cfg.connect(ctx, network, addr) })
		if err != nil {
			c.trouble.note(addr, err)
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

// trouble remembers the last failure to connect, for the errors of those who wait in vain.
type trouble struct {
	mu     sync.Mutex
	server string
	err    error
}

func (t *trouble) note(server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server, t.err = server, err
}

func (t *trouble) clear() { t.note("", nil) }

// last returns the failure as an error, or nil.
func (t *trouble) last() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err == nil:
		return nil
	case t.server == "" || strings.Contains(t.err.Error(), t.server):
		return t.err
	}
	return fmt.Errorf("%s: %w", t.server, t.err)
}
