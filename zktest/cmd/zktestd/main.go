// Command zktestd is a stand-alone in-memory ZooKeeper for development. Any client can connect to it; all data are
// lost when it ends.
//
//	go run github.com/go-curator/curator/zktest/cmd/zktestd -addr 127.0.0.1:2181
//
// With -members 3 it is an ensemble, on that port and the next ones. -help lists the flags; the fields of
// [zktest.Config] document them.
//
//	zktestd -min-session-timeout 1s -max-session-timeout 10m -tick 500ms
//	zktestd -sasl alice:secret -sasl bob:secret -require-sasl
//	zktestd -super-digest super:D/InIHSb7yEEbrWz8b9l71RjZJU=
//	zktestd -members 3 -read-only -local-sessions
//
// It is for development, on the loopback, which is its default. It logs a warning if other machines can reach its
// address: there is no TLS, and its limits for hostile clients are a test server's.
//
// Reconfig needs -reconfig. Otherwise it is disabled, as by default on a real server: the reply is the error -123.
// Clients that do not know this code may fail in odd ways: kazoo's reconfig never returns, here as with a real
// server.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-curator/curator/zktest"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	switch err := run(os.Args[1:], os.Stdout, os.Stderr, end); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFlags):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// errFlags reports invalid flags. The reason has been printed.
var errFlags = errors.New("zktestd: bad flags")

// maxClientConns limits the connections of an address unless a flag sets another limit: enough for any test bed, and
// not enough to exhaust the memory.
const maxClientConns = 1000

// settings are the values of the flags.
type settings struct {
	cfg     zktest.Config
	members int
	trace   bool
}

// parse reads the flags. It prints errors in them, and the help.
func parse(args []string, output io.Writer) (settings, error) {
	s := settings{cfg: zktest.Config{SASLUsers: map[string]string{}, Logger: slog.Default()}}
	c := &s.cfg
	flags := flag.NewFlagSet("zktestd", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.IntVar(&s.members, "members", 1, "how many servers: on the port of -addr and the next ones")
	flags.BoolVar(&s.trace, "trace", false, "print the trace when ending")
	flags.StringVar(&c.Listen, "addr", "127.0.0.1:2181", "TCP address to listen on")
	flags.Func("profile", "release to imitate: "+releases()+" (default "+zktest.V39.String()+")",
		func(name string) error { return profile(&c.Profile, name) })
	flags.DurationVar(&c.TickTime, "tick", 2*time.Second, "tick time (tickTime)")
	flags.DurationVar(&c.MinSessionTimeout, "min-session-timeout", 0,
		"the shortest session timeout that is granted; 0: 2 ticks")
	flags.DurationVar(&c.MaxSessionTimeout, "max-session-timeout", 0, "the longest; 0: 20 ticks")
	flags.IntVar(&c.MaxFrame, "max-frame", 0,
		"bytes of the longest request (jute.maxbuffer); 0: 1 MiB less one")
	flags.IntVar(&c.MaxClientConns, "max-client-conns", maxClientConns,
		"connections that one address may have (maxClientCnxns); 0: any number")
	flags.BoolVar(&c.ExtendedTypes, "ttl", true, "allow TTL nodes (extendedTypesEnabled)")
	flags.DurationVar(&c.ReapInterval, "reap", time.Minute,
		"the time between two searches for empty containers and expired TTL nodes")
	flags.BoolVar(&c.EnforceQuota, "enforce-quota", false, "refuse writes beyond a hard quota")
	flags.StringVar(&c.SuperDigest, "super-digest", "",
		"id of the super user: \"super:\" and the base64 of a SHA-1 "+
			"(DigestAuthenticationProvider.superDigest)")
	flags.BoolVar(&c.RequireAuth, "require-auth", false,
		"refuse clients that have not authenticated themselves by digest")
	var noUser error // package flag would repeat the value, which may be a password
	addUser := func(user string) error {
		name, password, found := strings.Cut(user, ":")
		if !found || name == "" {
			noUser = errors.New("invalid value for flag -sasl: write it as user:password")
			return nil
		}
		c.SASLUsers[name] = password
		return nil
	}
	flags.Func("sasl", "`user:password` who may log in by SASL DIGEST-MD5; may be repeated", addUser)
	flags.BoolVar(&c.RequireSASL, "require-sasl", false, "refuse clients that have not logged in by SASL")
	flags.BoolVar(&c.Reconfig, "reconfig", false,
		"with -members: the super user may change who of them votes (reconfigEnabled)")
	flags.BoolVar(&c.ReadOnlyMode, "read-only", false,
		"with -members: a member without a quorum serves reads (readonlymode.enabled)")
	flags.BoolVar(&c.LocalSessions, "local-sessions", false,
		"with -read-only: such a member opens sessions, too (localSessionsEnabled)")
	flags.IntVar(&c.SyncLimit, "sync-limit", 5,
		"with -members: ticks of silence until a member and its leader give each other up (syncLimit)")
	flags.DurationVar(&c.ElectionTime, "election-time", 400*time.Millisecond,
		"with -members: how long an election takes")
	flags.DurationVar(&c.Lag, "lag", 0, "with -members: how long after a commit a follower applies it")
	flags.DurationVar(&c.PeerDelay, "peer-delay", 0,
		"with -members: how long a message from member to member takes")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, err
		}
		return s, fmt.Errorf("%w: %w", errFlags, err)
	}
	if noUser != nil {
		fmt.Fprintln(output, noUser)
		return s, fmt.Errorf("%w: %w", errFlags, noUser)
	}
	if n := flags.NArg(); n > 0 { // the arguments are not repeated: they may be the rest of a password
		return s, fmt.Errorf("zktestd takes only flags, but the last %d arguments are not flags: see -help",
			n)
	}
	return s, nil
}

func releases() string {
	var names []string
	for _, p := range zktest.Profiles() {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

func profile(p *zktest.Profile, name string) error {
	for _, known := range zktest.Profiles() {
		if known.String() == name {
			*p = known
			return nil
		}
	}
	return errors.New("unknown release; use " + releases())
}

// servers is a server or an ensemble.
type servers interface {
	Close()
	Trace() []string
}

func (s settings) start() (serving servers, addr string, err error) {
	if s.members == 1 {
		server, err := zktest.NewServer(s.cfg)
		if err != nil {
			return nil, "", err
		}
		return server, server.Addr(), nil
	}
	ensemble, err := zktest.NewEnsemble(s.members, s.cfg)
	if err != nil {
		return nil, "", err
	}
	return ensemble, ensemble.ConnectString(), nil
}

// run serves until it receives from end.
func run(args []string, stdout, stderr io.Writer, end <-chan os.Signal) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	serving, addr, err := s.start()
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ZooKeeper", s.cfg.Profile, "on", addr)
	<-end
	serving.Close()
	if s.trace {
		for _, line := range serving.Trace() {
			fmt.Fprintln(stdout, line)
		}
	}
	return nil
}
