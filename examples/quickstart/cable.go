package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/go-curator/curator/framework"
)

// cable is a worker's network cable, which can be pulled.
type cable struct {
	to framework.Dialer

	mu     sync.Mutex
	pulled bool     // guarded by mu
	conn   net.Conn // the last one made, guarded by mu
}

var errUnplugged = errors.New("the network cable is unplugged")

// dial is a framework.Dialer.
func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.to(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulled {
		_ = conn.Close()
		return nil, errUnplugged
	}
	c.conn = conn
	return conn, nil
}

// pull cuts the connection; no other can be made until insert.
func (c *cable) pull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

func (c *cable) insert() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = false
}
