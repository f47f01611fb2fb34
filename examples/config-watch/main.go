// Config-watch shows a service whose configuration lives in a subtree of ZooKeeper and is applied while it runs.
//
// With an in-process ZooKeeper, with yours, and only following a configuration until interrupted:
//
//	go run ./examples/config-watch
//	go run ./examples/config-watch -servers zk1:2181,zk2:2181
//	go run ./examples/config-watch -servers zk1:2181 -path /config/shop -watch
//
// The service keeps a cache of the subtree (service.go is the file to copy). An operator changes values, writes
// invalid ones, and changes more while the service has no network (demo.go). After each step the program checks the
// service's configuration, and exits with status 1 if it is wrong.
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
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "config-watch:", err)
		os.Exit(1)
	}
}

// settings are the values of the flags.
type settings struct {
	servers, path string
	watch         bool
	timeout       time.Duration // of the sessions
	dial          framework.Dialer
}

func parse(args []string, out io.Writer) (settings, error) {
	s := settings{timeout: 30 * time.Second, dial: new(net.Dialer).DialContext}
	flags := flag.NewFlagSet("config-watch", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.servers, "servers", "",
		"`host:port,…` of your ZooKeeper; without it an in-process one is started")
	flags.StringVar(&s.path, "path", "/curator/config-watch",
		"`path` of the configuration; the demonstration writes below it")
	flags.BoolVar(&s.watch, "watch", false,
		"change nothing, only follow the configuration until interrupted; needs -servers")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q: there are only flags; see -help", flags.Arg(0))
	case s.watch && s.servers == "":
		return s, errors.New("-watch needs -servers: nobody else can change the in-process ZooKeeper")
	}
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	if s.servers == "" {
		server, err := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond})
		if err != nil {
			return fmt.Errorf("starting the in-process ZooKeeper: %w", err)
		}
		defer server.Close()
		s.servers, s.dial, s.timeout = server.Addr(), server.Dial, 2*time.Second
		fmt.Fprint(out, "in-process ZooKeeper (give -servers to use your own)\n\n")
	}
	out = &lines{out: out}
	plug := cable{to: s.dial}
	client, err := connect(ctx, s, framework.WithDialer(plug.dial))
	if err != nil {
		return err
	}
	defer client.Close()
	if s.watch {
		service, err := newService(client, s.path, out)
		if err != nil {
			return err
		}
		if err := service.run(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	operator, err := connect(ctx, s, framework.WithDialer(s.dial))
	if err != nil {
		return err
	}
	defer operator.Close()
	d := &demo{client: client, operator: operator, plug: &plug, path: s.path, out: out}
	return d.run(ctx)
}

func connect(ctx context.Context, s settings, opts ...framework.Option) (*framework.Client, error) {
	client, err := framework.New(s.servers, append(opts, framework.WithSessionTimeout(s.timeout))...)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.WaitConnected(waiting); err != nil {
		client.Close()
		return nil, fmt.Errorf("cannot reach ZooKeeper at %s (without -servers one is started): %w",
			s.servers, err)
	}
	return client, nil
}

// lines lets several goroutines write.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}
