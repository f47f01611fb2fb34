// Registration: the processes of a service find each other. Without arguments it is a demonstration on the
// embedded server: two processes register, and one of them is started again.
//
//	go run ./examples/registration
//	go run ./examples/registration -servers zk1:2181 -id host-7 -address 10.0.0.7:80
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("registration", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	servers := flags.String("servers", "", "ZooKeeper; without it, the demonstration on an embedded one")
	service := flags.String("service", "web", "the name of the service")
	id := flags.String("id", "", "the name of this process")
	address := flags.String("address", "", "where it can be reached")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("surplus arguments: %q", flags.Args())
	}
	if *servers == "" {
		return demonstrate(ctx, out)
	}
	client, err := framework.New(*servers)
	if err != nil {
		return err
	}
	defer client.Close()
	me := instance{Address: *address}
	err = serve(ctx, client, *service, *id, me, func(ctx context.Context, others *group.Member) error {
		for event, err := range others.Follow(ctx) {
			if err != nil {
				return err
			}
			fmt.Fprintln(out, event)
		}
		return nil
	})
	if ctx.Err() != nil { // it was asked to stop
		return nil
	}
	return err
}

// demonstrate lets processes come, be replaced and go.
func demonstrate(ctx context.Context, out io.Writer) error {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		return err
	}
	defer server.Close()
	var stops []func() error
	for _, p := range []struct{ id, address string }{
		{"host-1", "10.0.0.1:80"}, {"host-2", "10.0.0.2:80"},
		{"host-1", "10.0.0.1:8080"}, // started again, while the session of the first one is not over yet
	} {
		stop, err := process(ctx, server, p.id, instance{p.address, "1.0"}, out)
		if err != nil {
			return err
		}
		stops = append(stops, stop)
	}
	var failures []error
	for _, stop := range stops {
		failures = append(failures, stop())
	}
	return errors.Join(failures...)
}

// process runs a process of the service. It prints the members that it sees, and runs until it is stopped.
func process(
	ctx context.Context, server *zktest.Server, id string, me instance, out io.Writer,
) (stop func() error, err error) {
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- serve(ctx, client, "web", id, me, func(ctx context.Context, others *group.Member) error {
			for event, err := range others.Follow(ctx) {
				if err != nil {
					return nil // it was asked to stop
				}
				if event.Type != group.Joined {
					continue
				}
				fmt.Fprintf(out, "%s sees %s: %s\n", id, event.Member.ID, event.Member.Data)
				var seen instance // a predecessor's may have the same id
				if json.Unmarshal(event.Member.Data, &seen); event.Member.ID == id && seen == me {
					close(started)
					break
				}
			}
			<-ctx.Done()
			return nil
		})
	}()
	stop = func() error {
		cancel()
		return errors.Join(<-ended, client.Close())
	}
	select {
	case <-started:
		return stop, nil
	case err := <-ended:
		cancel()
		return nil, errors.Join(err, client.Close())
	}
}
