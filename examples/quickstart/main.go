// Quickstart shows workers that take turns at a distributed lock, and the loss of the lock by a holder that loses its
// network.
//
//	go run ./examples/quickstart                               # with an in-process ZooKeeper
//	go run ./examples/quickstart -servers zk1:2181,zk2:2181    # with yours
//
// Every worker is a client with its own session, like a separate process. Each grant is printed with its fencing
// token and the time waited. Midway the holder's network is unplugged: its lock's context ends, then its session, and
// the next worker takes over. The program checks that there were never two holders, and exits with status 1 if there
// were.
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
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// settings are the values of the flags.
type settings struct {
	servers         string
	workers, rounds int
	path            string
	timeout         time.Duration // of the sessions
	dial            framework.Dialer
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.servers, "servers", "",
		"`host:port,…` of your ZooKeeper; without it an in-process one is started")
	flags.IntVar(&s.workers, "workers", 4, "how many take turns, each in a session of its own")
	flags.IntVar(&s.rounds, "rounds", 5, "how often each worker gets the lock")
	flags.StringVar(&s.path, "path", "/curator/quickstart", "`path` of the lock")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q: there are only flags; see -help", flags.Arg(0))
	case s.workers < 1:
		return s, fmt.Errorf("-workers %d: at least one is needed, and two to see a hand-over", s.workers)
	case s.rounds < 1:
		return s, fmt.Errorf("-rounds %d: at least one is needed", s.rounds)
	}
	s.timeout = 4 * time.Second // the least that ZooKeeper grants with its usual tickTime
	s.dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
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
		fmt.Fprintln(out, "in-process ZooKeeper (give -servers to use your own)")
	}
	fmt.Fprintf(out, "%d workers, each with its own session, take turns at the lock %s, %d times each\n\n",
		s.workers, s.path, s.rounds)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &ledger{out: out, began: time.Now(), unplugAt: (s.workers*s.rounds + 1) / 2}
	var group sync.WaitGroup
	for i := range s.workers {
		group.Go(func() {
			if err := work(ctx, s, l, i+1); err != nil {
				cancel(err) // the others can stop
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if l.failure != nil {
		return l.failure
	}
	fmt.Fprintf(out, "\nquickstart: %d grants to %d workers, never two at once\n", l.grants, s.workers)
	return nil
}

// work runs one worker.
func work(ctx context.Context, s settings, l *ledger, worker int) error {
	plug := cable{to: s.dial}
	client, err := framework.New(s.servers,
		framework.WithSessionTimeout(s.timeout), framework.WithDialer(plug.dial))
	if err != nil {
		return err
	}
	defer client.Close()
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.WaitConnected(waiting); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("cannot reach ZooKeeper at %s (without -servers one is started): %w",
			s.servers, err)
	}

	m := mutex.New(client, s.path, mutex.WithNodeData(fmt.Appendf(nil, "worker %d", worker)))
	for range s.rounds {
		asked := time.Now()
		lock, err := m.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("worker %d: %w", worker, err)
		}
		if l.granted(worker, lock, time.Since(asked)) {
			unplugged(ctx, l, worker, &plug, lock)
		} else {
			busy(lock.Context(), 30*time.Millisecond)
		}
		// If the session was lost, Release returns that error, and the next round uses a new session.
		if err := lock.Release(ctx); err != nil && !errors.Is(err, mutex.ErrSessionLost) {
			return fmt.Errorf("worker %d: %w", worker, err)
		}
	}
	return nil
}

// busy is work done under the lock: it stops when the lock is lost.
func busy(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// unplugged shows the course of a hold without a network.
func unplugged(ctx context.Context, l *ledger, worker int, plug *cable, lock *mutex.Lock) {
	l.say("          worker %d holds the lock and is unplugged from the network; "+
		"it is certain of the lock for %v more", worker, lock.Remaining().Round(time.Millisecond))
	since := time.Now()
	plug.pull()
	select {
	case <-lock.Context().Done():
		after := time.Since(since).Round(time.Millisecond)
		l.say("          worker %d stops, %v later: %v", worker, after, context.Cause(lock.Context()))
	case <-ctx.Done():
	}
	plug.insert()
}
