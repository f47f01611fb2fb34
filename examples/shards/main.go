// Command shards is a service whose processes share a number of shards: each shard is worked on by one process at a
// time, and moves when processes come and go.
//
//	go run ./examples/shards                          three processes' worth, on an embedded server; one leaves
//	go run ./examples/shards -servers localhost:2181  one process, until it is interrupted; start several
//
// The work is in shards.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/assignment"
	"github.com/go-curator/curator/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("shards", flag.ContinueOnError)
	flags.SetOutput(out)
	servers := flags.String("servers", "", "ZooKeeper; empty: a server in this process")
	shards := flags.Int("shards", 6, "how many there are")
	if err := flags.Parse(args); err != nil {
		return err
	}
	out = &lines{out: out}
	if *servers == "" {
		return demo(ctx, *shards, out)
	}
	client, err := framework.New(*servers)
	if err != nil {
		return err
	}
	defer client.Close()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	err = index(ctx, client, fmt.Sprintf("%s-%d", host, os.Getpid()), *shards, out)
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return err
}

// demo has three processes share the shards; when they have done so, one leaves, and the others take over.
func demo(ctx context.Context, shards int, out io.Writer) error {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var processes sync.WaitGroup
	defer processes.Wait()
	defer stop()
	var looks *framework.Client
	leaving := map[string]context.CancelFunc{}
	for _, id := range []string{"red", "green", "blue"} {
		client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
		if err != nil {
			return err
		}
		own, leave := context.WithCancel(ctx)
		looks, leaving[id] = client, leave
		processes.Go(func() {
			defer leave()
			if err := index(own, client, id, shards, out); own.Err() == nil {
				fmt.Fprintln(out, err)
			}
			<-ctx.Done() // another one may still look at the plan with it
			_ = client.Close()
		})
	}
	plan := assignment.New(looks, "/indexer", nil)
	if err := shared(ctx, plan, 3, out); err != nil {
		return err
	}
	fmt.Fprintln(out, "red leaves")
	leaving["red"]()
	return shared(ctx, plan, 2, out)
}

// shared waits until the plan names so many owners, and prints how many shards each is to have.
func shared(ctx context.Context, a *assignment.Assignment, owners int, out io.Writer) error {
	for {
		plan, err := a.Plan(ctx)
		if err != nil {
			return err
		}
		has := map[string]int{}
		for _, owner := range plan {
			has[owner]++
		}
		if len(has) == owners {
			_, err := fmt.Fprintln(out, "the plan:", has)
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// lines writes whole lines, for concurrent writers.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}
