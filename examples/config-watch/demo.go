package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

// demo is an operator at work on the configuration of a running service.
type demo struct {
	client, operator *framework.Client
	plug             *cable // of the service's client
	path             string
	out              io.Writer
}

// step is something that happens, and the state that the service must have afterwards.
type step struct {
	says     string
	do       action
	config   string
	nonsense bool // the configuration in ZooKeeper is refused
	offline  bool
}

func (d *demo) steps() []step {
	return []step{
		{says: "there is no configuration yet: defaults",
			config: `log level "info", 100 requests/s, features []`},
		{says: "the operator writes one", do: all(
			d.put("/log-level", "warn"),
			d.put("/limits", `{"RequestsPerSecond": 500}`),
			d.put("/features/dark-mode", "on")),
			config: `log level "warn", 500 requests/s, features ["dark-mode"]`},
		{says: "a limit is raised", do: d.put("/limits", `{"RequestsPerSecond": 800}`),
			config: `log level "warn", 800 requests/s, features ["dark-mode"]`},
		{says: "a feature is added, another one is switched off, in one transaction", do: d.rollOut,
			config: `log level "warn", 800 requests/s, features ["search"]`},
		{says: "somebody writes nonsense", do: d.put("/limits", `{"RequestsPerSecond": lots}`),
			config: `log level "warn", 800 requests/s, features ["search"]`, nonsense: true},
		{says: "and corrects it", do: d.put("/limits", `{"RequestsPerSecond": 900}`),
			config: `log level "warn", 900 requests/s, features ["search"]`},
		{says: "the service loses its network", do: d.unplug,
			config: `log level "warn", 900 requests/s, features ["search"]`, offline: true},
		{says: "the operator goes on meanwhile", do: all(
			d.put("/log-level", "debug"), d.remove("/features/search"), d.put("/features/voice", "on")),
			config: `log level "warn", 900 requests/s, features ["search"]`, offline: true},
		{says: "the network is back", do: d.replug,
			config: `log level "debug", 900 requests/s, features ["voice"]`},
	}
}

func (d *demo) run(ctx context.Context) (err error) {
	defer d.cleanUp(ctx)
	service, err := newService(d.client, d.path, d.out)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- service.run(serving) }()
	defer func() {
		stop()
		if e := <-ended; err == nil && !errors.Is(e, context.Canceled) {
			err = e
		}
	}()
	for _, step := range d.steps() {
		if err := d.take(ctx, service, step); err != nil {
			return fmt.Errorf("%s: %w", step.says, err)
		}
	}
	fmt.Fprintf(d.out, "\nconfig-watch: the service followed every change\n")
	return nil
}

func (d *demo) take(ctx context.Context, service *service, step step) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	fmt.Fprintln(d.out, step.says)
	if step.do != nil {
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return service.await(ctx, func(now status) bool {
		if now.config == nil || now.config.String() != step.config {
			return false
		}
		return (now.refused != nil) == step.nonsense && now.offline == step.offline
	})
}

type action = func(ctx context.Context) error

func all(actions ...action) action {
	return func(ctx context.Context) error {
		for _, do := range actions {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (d *demo) put(name, value string) action {
	return func(ctx context.Context) error {
		create := d.operator.Create().CreatingParentsIfNeeded().OrSetData()
		_, err := create.ForPath(ctx, d.path+name, []byte(value))
		return err
	}
}

func (d *demo) remove(name string) action {
	return func(ctx context.Context) error { return d.operator.Delete().ForPath(ctx, d.path+name) }
}

func (d *demo) rollOut(ctx context.Context) error {
	op := d.operator.TransactionOp
	_, err := d.operator.Transaction(ctx,
		op().Create().ForPath(d.path+"/features/search", []byte("on")),
		op().SetData().ForPath(d.path+"/features/dark-mode", []byte("off")))
	return err
}

func (d *demo) unplug(context.Context) error {
	d.plug.pull()
	return nil
}

func (d *demo) replug(context.Context) error {
	d.plug.push()
	return nil
}

func (d *demo) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := d.operator.Delete().DeletingChildrenIfNeeded().Quietly().ForPath(ctx, d.path); err != nil {
		fmt.Fprintf(d.out, "cannot delete what the demonstration wrote: %v\n", err)
	}
}

// cable is a network that can be unplugged.
type cable struct {
	to framework.Dialer

	mu     sync.Mutex
	pulled bool       // guarded by mu
	conns  []net.Conn // guarded by mu
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	pulled := c.pulled
	c.mu.Unlock()
	if pulled {
		return nil, errors.New("the network is unplugged")
	}
	conn, err := c.to(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulled {
		conn.Close()
		return nil, errors.New("the network is unplugged")
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cable) pull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = true
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

func (c *cable) push() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = false
}
