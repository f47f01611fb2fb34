// Command zktestd is a stand-alone in-memory ZooKeeper for development: any client connects to it, nothing is kept when it ends.
//
//	go run github.com/go-curator/curator/zktest/cmd/zktestd -addr 127.0.0.1:2181
//
// With -members 3 it is an ensemble, on that port and the next ones.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-curator/curator/zktest"
)

func main() {
	members := flag.Int("members", 1, "how many; each has a port, from that of addr on")
	addr := flag.String("addr", "127.0.0.1:2181", "TCP address to listen on")
	tick := flag.Duration("tick", 2*time.Second, "tick time; session timeouts are between 2 and 20 ticks")
	ttl := flag.Bool("ttl", true, "allow TTL nodes")
	profile := flag.String("profile", "3.8", "version to imitate: 3.5, 3.8, 3.8.4 or 3.9")
	trace := flag.Bool("trace", false, "print the trace when ending")
	flag.Parse()
	if err := run(zktest.Config{Listen: *addr, TickTime: *tick, ExtendedTypes: *ttl, Logger: slog.Default()}, *profile, *members, *trace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// servers is a server or an ensemble.
type servers interface {
	Close()
	Trace() []string
}

func start(cfg zktest.Config, members int) (s servers, addr string, err error) {
	if members == 1 {
		server, err := zktest.NewServer(cfg)
		if err != nil {
			return nil, "", err
		}
		return server, server.Addr(), nil
	}
	ensemble, err := zktest.NewEnsemble(members, cfg)
	if err != nil {
		return nil, "", err
	}
	return ensemble, ensemble.ConnectString(), nil
}

func run(cfg zktest.Config, profile string, members int, trace bool) error {
	found := false
	for _, p := range []zktest.Profile{zktest.V35, zktest.V38, zktest.V384, zktest.V39} {
		if p.String() == profile {
			cfg.Profile, found = p, true
		}
	}
	if !found {
		return fmt.Errorf("zktestd: unknown profile %q: use 3.5, 3.8, 3.8.4 or 3.9", profile)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	server, addrs, err := start(cfg, members)
	if err != nil {
		return err
	}
	fmt.Println("ZooKeeper", profile, "on", addrs)
	<-end
	server.Close()
	if trace {
		for _, line := range server.Trace() {
			fmt.Println(line)
		}
	}
	return nil
}
