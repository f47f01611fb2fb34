package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-curator/curator/integration/proxy"
)

// Pair is a Redis and its replica. Its one address leads to the first, and after Promote to the second, as a
// virtual address does.
type Pair struct {
	*single
	to    []string // the addresses of both
	front *proxy.Proxy
	back  *proxy.Proxy // from the replica to the first
}

func pair(dir string, o Options) (_ *Pair, err error) {
	both, err := redis(dir, 1, o)
	if err != nil {
		return nil, err
	}
	p := &Pair{single: both, to: both.addrs}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.back, err = proxy.Listen(proxy.Settings{Addr: "127.0.0.1:0", Target: p.to[0]}); err != nil {
		return nil, err
	}
	at, err := ports(2)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(p.back.Addr(), ":")
	replica := redisAt(filepath.Join(dir, "replica"), at[0], "--replicaof", host, port)
	if err = replica.start(); err != nil {
		return nil, err
	}
	p.processes, p.to = append(p.processes, replica), append(p.to, "127.0.0.1:"+at[0])
	synced := &process{argv: []string{"the replica"}, ended: replica.ended, dir: replica.dir, ready: func(ctx context.Context) error {
		answer, err := ask(ctx, p.to[1], "ROLE\r\n")
		if err != nil {
			return err
		}
		if answer != "*5" {
			return fmt.Errorf("its role begins with %q", answer)
		}
		info, err := rest(ctx, p.to[1], "INFO replication\r\nQUIT\r\n")
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New("it has no link to the first yet")
		}
		return err
	}}
	if err = synced.await(); err != nil {
		return nil, err
	}
	if p.front, err = proxy.Listen(proxy.Settings{Addr: "127.0.0.1:" + at[1], Target: p.to[0]}); err != nil {
		return nil, err
	}
	return p, nil
}

// Addrs is the virtual address.
func (p *Pair) Addrs() []string { return []string{p.front.Addr()} }

// Lag holds back the data sent to the replica, like a network between the two that is slow for a moment.
func (p *Pair) Lag() { p.back.Hang(proxy.Both) }

// Promote kills the first, makes the replica the first, and leads the address to it.
func (p *Pair) Promote() error {
	if err := p.Kill(0); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if answer, err := ask(ctx, p.to[1], "REPLICAOF NO ONE\r\n"); err != nil || answer != "+OK" {
		return fmt.Errorf("REPLICAOF NO ONE: %q %w", answer, err)
	}
	addr := p.front.Addr()
	p.front.Close()
	var err error
	p.front, err = proxy.Listen(proxy.Settings{Addr: addr, Target: p.to[1]})
	return err
}

// Close implements Server.
func (p *Pair) Close() error {
	for _, each := range []*proxy.Proxy{p.front, p.back} {
		if each != nil {
			each.Close()
		}
	}
	return p.single.Close()
}
