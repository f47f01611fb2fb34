// Leader-service is an HTTP service with several copies and one leader among them.
//
// A demonstration with an in-process ZooKeeper, and one copy with yours (start as many as you like):
//
//	go run ./examples/leader-service
//	go run ./examples/leader-service -servers zk1:2181,zk2:2181
//
// Each copy answers
//
//	GET  /         who it is, and who leads
//	GET  /healthz  200 while it leads or follows, 503 if it has known neither for longer than a session lasts
//	POST /work     what only the leader may do: other copies redirect to it
//
// SIGTERM ends a copy with a graceful hand-over: the leader finishes its current job and resigns, and the next copy
// leads immediately. A copy that is killed, or cut off, is replaced when its session ends.
//
// The demonstration runs three copies as separate processes. It ends the leader by SIGTERM and the next one by
// SIGKILL, and exits with status 1 if the last one does not lead in time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "leader-service:", err)
		os.Exit(1)
	}
}

// settings are the values of the flags.
type settings struct {
	servers, path   string
	listen, address string
	timeout         time.Duration // of the session
	untilEOF        bool
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("leader-service", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.servers, "servers", "",
		"`host:port,…` of your ZooKeeper; without it there is a demonstration with an in-process one")
	flags.StringVar(&s.path, "path", "/curator/leader-service",
		"`path` of the election, and of the counter that the leader keeps")
	flags.StringVar(&s.listen, "http", "127.0.0.1:0",
		"`address` to serve HTTP at; port 0 is any that is free")
	flags.StringVar(&s.address, "advertise", "",
		"`URL` at which the other copies' clients reach this one (default: that of -http)")
	flags.DurationVar(&s.timeout, "session-timeout", 0,
		"how long after its death a leader is replaced (default 10s, in the demonstration 2s)")
	flags.BoolVar(&s.untilEOF, "until-eof", false,
		"end when standard input does, too: so no copy outlives the demonstration")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q: there are only flags; see -help", flags.Arg(0))
	}
	if s.timeout == 0 {
		s.timeout = 10 * time.Second
		if s.servers == "" {
			s.timeout = 2 * time.Second
		}
	}
	return s, nil
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	if s.servers == "" {
		return demonstrate(ctx, s, out)
	}
	if s.untilEOF {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, in)
			end()
		}()
	}
	return serve(ctx, s, out)
}
