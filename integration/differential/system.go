package differential

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/zktest"
)

// System is a server under comparison.
type System interface {
	Name() string
	Dial() (net.Conn, error)
	// Lives reports whether the server still has a session, Connected whether that has a connection.
	Lives(session int64) (bool, error)
	Connected(session int64) (bool, error)
}

// The configuration of both servers. The tick is short, so that expiry takes no time; no node is reaped unless a test
// wants it.
const (
	tick       = 100 * time.Millisecond
	minTimeout = 2 * tick
	maxTimeout = 60 * time.Second
	expiry     = 3 * tick // of sessions that are to expire
	never      = 24 * time.Hour
	superUser  = "super:secret"
)

type real struct{ node *zkserver.Node }

func startReal(t testing.TB, reap time.Duration) real {
	return real{zkserver.Start(t, zkserver.Options{TickTime: tick, MinSessionTimeout: minTimeout,
		MaxSessionTimeout: maxTimeout, ExtendedTypes: true,
		ContainerCheckInterval: reap, JVMFlags: []string{"-Dzookeeper.enforceQuota=true",
			"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + digest(superUser)}})}
}

func (r real) Name() string            { return "ZooKeeper " + r.node.Version() }
func (r real) Dial() (net.Conn, error) { return net.DialTimeout("tcp", r.node.Addr(), patience) }

func (r real) Lives(session int64) (bool, error) {
	dump, err := r.word("dump")
	sessions, _, _ := strings.Cut(dump, "Connections dump:") // where connections stand that are long gone
	return strings.Contains(sessions, fmt.Sprintf("%#x", session)), err
}

func (r real) Connected(session int64) (bool, error) {
	cons, err := r.word("cons")
	return strings.Contains(cons, fmt.Sprintf("%#x", session)), err
}

func (r real) word(word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return zkserver.FourLetter(ctx, r.node.Addr(), word)
}

type inProcess struct{ *zktest.Server }

// profileOf is the profile of a release, or else of the newest one in the same line.
func profileOf(t testing.TB, release string) zktest.Profile {
	t.Helper()
	profiles := zktest.Profiles() // the newest first
	line := release[:strings.LastIndexByte(release, '.')+1]
	at := slices.IndexFunc(profiles, func(p zktest.Profile) bool { return p.String() == release })
	if at < 0 {
		at = slices.IndexFunc(profiles, func(p zktest.Profile) bool { return strings.HasPrefix(p.String(), line) })
	}
	if at < 0 {
		t.Fatalf("zktest has no profile for ZooKeeper %s", release)
	}
	return profiles[at]
}

func startInProcess(t testing.TB, reap time.Duration, profile zktest.Profile) inProcess {
	t.Log("ran on: zktest") // for the report of ../run
	return inProcess{zktest.RunT(quiet{t}, zktest.Config{TickTime: tick, MinSessionTimeout: minTimeout,
		MaxSessionTimeout: maxTimeout,
		ExtendedTypes:     true, ReapInterval: reap, EnforceQuota: true, SuperDigest: digest(superUser),
		Profile: profile, Listen: "127.0.0.1:0"})}
}

// quiet keeps the server's trace, which the histories that agree fill, out of the output of a failed test.
type quiet struct{ testing.TB }

func (quiet) Failed() bool { return false }

func (s inProcess) Name() string { return "zktest" }

func (s inProcess) Dial() (net.Conn, error) { return net.DialTimeout("tcp", s.Addr(), patience) }

func (s inProcess) Lives(session int64) (bool, error) {
	return slices.ContainsFunc(s.Sessions(), func(known zktest.SessionInfo) bool { return known.ID == session }),
		nil
}

func (s inProcess) Connected(session int64) (bool, error) {
	return slices.ContainsFunc(s.Sessions(),
		func(known zktest.SessionInfo) bool { return known.ID == session && known.Connected }), nil
}
