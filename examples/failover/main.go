// Failover is a manager that watches over a database: one of several acts at a time, and the lock's node names it.
// Without arguments it is a demonstration on the embedded server: there are two managers, and the first one loses its
// network.
//
//	go run ./examples/failover
//	go run ./examples/failover -servers zk1:2181,zk2:2181,zk3:2181 -session-timeout 3s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("failover", flag.ContinueOnError)
	flags.SetOutput(out)
	servers := flags.String("servers", "", "ZooKeeper; without it, the demonstration on an embedded one")
	path := flags.String("path", "/failover/manager", "the lock's node")
	timeout := flags.Duration("session-timeout", 10*time.Second, "how long a manager that is gone keeps the lock")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("surplus arguments: %q", flags.Args())
	}
	if *servers == "" {
		return demonstrate(ctx, out)
	}
	client, err := framework.New(*servers, framework.WithSessionTimeout(*timeout))
	if err != nil {
		return err
	}
	defer client.Close()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return manager(client, *path, host, out).Run(ctx)
}

// manager returns a Manager that prints its actions.
func manager(client *framework.Client, path, host string, out io.Writer) *Manager {
	return &Manager{
		Client: client, Path: path, Self: Owner{Host: host, PID: os.Getpid()},
		Act: func(ctx context.Context, _ int64, valid func() bool) error {
			fmt.Fprintln(out, host, "acts")
			for ctx.Err() == nil && valid() {
				select { // here it would look after the database
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			fmt.Fprintln(out, host, "does not act any more")
			return nil
		},
		Other: func(o Owner) { fmt.Fprintln(out, host, "waits:", o.Host, "has the lock") },
	}
}

// demonstrate lets a manager lose its network, and another one take over.
func demonstrate(ctx context.Context, out io.Writer) error {
	server, err := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := &printer{out: out}
	var managers sync.WaitGroup
	defer managers.Wait()
	var first *framework.Client
	var gone atomic.Bool // the first one's network
	for _, host := range []string{"first", "second"} {
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if host == "first" && gone.Load() {
				return nil, errors.New("no route to host")
			}
			return server.Dial(ctx, network, addr)
		}
		client, err := framework.New(server.Addr(), framework.WithDialer(dial),
			framework.WithSessionTimeout(3*time.Second))
		if err != nil {
			return err
		}
		defer client.Close()
		if first == nil {
			first = client
		}
		managers.Go(func() { _ = manager(client, "/failover/manager", host, lines).Run(ctx) })
		if err := lines.await(ctx, host); err != nil {
			return err
		}
	}
	session, err := first.Session(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(lines, "(the first one's network is gone)")
	gone.Store(true)
	server.BlackHole(session.ID(), zktest.Both)
	err = lines.await(ctx, "second acts")
	cancel()
	return err
}

// printer prints, and lets its callers wait for a text to be printed.
type printer struct {
	out io.Writer

	mu      sync.Mutex
	seen    string          // guarded by mu
	changed []chan struct{} // guarded by mu
}

func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen += string(b)
	for _, c := range p.changed {
		close(c)
	}
	p.changed = nil
	return p.out.Write(b)
}

func (p *printer) await(ctx context.Context, text string) error {
	for {
		p.mu.Lock()
		if strings.Contains(p.seen, text) {
			p.mu.Unlock()
			return nil
		}
		c := make(chan struct{})
		p.changed = append(p.changed, c)
		p.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
}
