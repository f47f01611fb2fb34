// Command cron is a service with a job that is executed once per slot, in whichever of its processes is the first:
//
//	go run ./examples/cron                          two processes' worth, on an embedded server, for three slots
//	go run ./examples/cron -servers localhost:2181  one process, until it is interrupted; start several
//
// The job itself is in job.go.
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
	flags := flag.NewFlagSet("cron", flag.ContinueOnError)
	flags.SetOutput(out)
	servers := flags.String("servers", "", "ZooKeeper; empty: a server in this process")
	every := flags.Duration("every", time.Second, "the length of a slot")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *servers != "" {
		client, err := framework.New(*servers)
		if err != nil {
			return err
		}
		defer client.Close()
		return reports(ctx, client, *every, out)
	}
	return demo(ctx, *every, out)
}

// demo has two clients do the job, until three slots have been done.
func demo(ctx context.Context, every time.Duration, out io.Writer) error {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := &counting{out: out, after: 3, stop: stop}
	var processes sync.WaitGroup
	for range 2 {
		client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
		if err != nil {
			return err
		}
		processes.Go(func() {
			defer client.Close()
			if err := reports(ctx, client, every, lines); err != nil {
				fmt.Fprintln(out, err)
			}
		})
	}
	processes.Wait()
	return nil
}

// counting writes so many lines, and calls stop then.
type counting struct {
	mu    sync.Mutex
	out   io.Writer
	after int
	stop  func()
}

func (c *counting) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.after--; c.after == 0 {
		c.stop()
	}
	return c.out.Write(line)
}
