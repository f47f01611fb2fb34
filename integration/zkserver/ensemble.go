package zkserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/proxy"
)

// Ensemble is a [cluster.Cluster] of child processes. It needs Linux, for the sake of addresses like 127.3.2.1.
//
// All members have one and the same configuration, with host names, as real ensembles have, and clients find it in
// /zookeeper/config. But each member has a separate hosts file. It maps the name of a peer to the address of the
// proxy between the two:
//
//	127.net.0.i   where member i listens
//	127.net.i.j   what member i takes for member j
//	localhost     for clients the proxy of a member, for the member itself
type Ensemble struct {
	t       testing.TB
	options Options
	version string
	members []*member
}

type member struct {
	server
	clients *proxy.Proxy
	peers   map[int][]*proxy.Proxy // from this member to another: quorum port, election port
}

var _ cluster.Cluster = (*Ensemble)(nil)

// maxSize keeps the addresses of members equally long; see readdress.
const maxSize = 9

// starting has room for one: on a small machine many servers that start at the
// same time keep one another from holding an election.
var starting = make(chan struct{}, 1)

// StartEnsemble starts an ensemble of at most 9 members and waits until all of
// them serve. It ends with the test.
func StartEnsemble(t testing.TB, size int, options Options) *Ensemble {
	t.Helper()
	if size < 1 || size > maxSize {
		t.Fatalf("an ensemble of %d members: give 1 to %d", size, maxSize)
	}
	e := &Ensemble{t: t, options: options}
	for range size {
		e.members = append(e.members, &member{server: server{dir: t.TempDir(), release: options.Version}})
	}
	t.Cleanup(e.cleanUp)
	starting <- struct{}{}
	defer func() { <-starting }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	for {
		err := e.start(ctx)
		if err == nil {
			t.Log("ran on: " + e.processes()) // for the report of ../run
			return e
		}
		if !errors.Is(err, errAddressInUse) {
			t.Fatal(err)
		}
		e.end() // and again with other addresses
	}
}

func (e *Ensemble) start(ctx context.Context) error {
	if err := e.configure(); err != nil {
		return err
	}
	for _, m := range e.members {
		if err := m.launch(); err != nil {
			return err
		}
	}
	if err := e.AwaitServing(ctx); err != nil {
		return err
	}
	for _, m := range e.members {
		home := ""
		if err := until(ctx, func() (bool, error) { home = m.home(); return home != "", nil }); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if !strings.HasPrefix(home, m.dataDir()) {
			return fmt.Errorf("%s: another server answers: %w", m.name, errAddressInUse)
		}
	}
	var err error
	e.version, err = e.members[0].version(ctx)
	return err
}

// configure finds addresses, starts the proxies and writes the hosts files.
func (e *Ensemble) configure() error {
	subnet := 16 + rand.IntN(224)
	type ports struct{ quorum, election, client int }
	var at []ports
	var lines strings.Builder
	for i := range e.members {
		var p ports
		for _, port := range []*int{&p.quorum, &p.election, &p.client} {
			var err error
			if *port, err = freePort(); err != nil {
				return err
			}
		}
		at = append(at, p)
		fmt.Fprintf(&lines, "server.%d=zk%[1]d:%d:%d;localhost:%d\n", i+1, p.quorum, p.election, p.client)
	}
	own := func(i int) string { return fmt.Sprintf("127.%d.0.%d", subnet, i+1) }
	seen := func(i, j int) string { return fmt.Sprintf("127.%d.%d.%d", subnet, i+1, j+1) } // what i takes for j
	for i, m := range e.members {
		var hosts strings.Builder
		fmt.Fprintf(&hosts, "%s zk%d localhost\n", own(i), i+1)
		m.peers = map[int][]*proxy.Proxy{}
		for j := range e.members {
			if i == j {
				continue
			}
			fmt.Fprintf(&hosts, "%s zk%d\n", seen(i, j), j+1)
			for _, link := range []proxy.Settings{
				// A leader begins to listen when it has been elected, a little after its followers connect.
				{Addr: addr(seen(i, j), at[j].quorum), Target: addr(own(j), at[j].quorum), Redial: 2 * time.Second},
				{Addr: addr(seen(i, j), at[j].election), Target: addr(own(j), at[j].election),
					Tap: readdress(own(i), seen(j, i))},
			} {
				p, err := listen(link)
				if err != nil {
					return err
				}
				m.peers[j] = append(m.peers[j], p)
			}
		}
		clients, err := listen(proxy.Settings{Addr: addrOf(at[i].client), Target: addr(own(i), at[i].client)})
		if err != nil {
			return err
		}
		m.clients = clients
		m.name = fmt.Sprintf("member %d at %s", i, clients.Addr())
		m.myid = i + 1
		m.addr = addr(own(i), at[i].client)
		m.config = e.options.config() + lines.String()
		file := filepath.Join(m.dir, "hosts")
		m.flags = append(e.options.properties(), append(quickElection(), "-Djdk.net.hosts.file="+file)...)
		if err := os.WriteFile(file, []byte(hosts.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func addr(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// listen starts a proxy. A port that is taken is as bad as one of a server's.
func listen(s proxy.Settings) (*proxy.Proxy, error) {
	p, err := proxy.Listen(s)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: %w", errAddressInUse, err)
	case err != nil:
		return nil, fmt.Errorf("an ensemble needs the whole of 127.0.0.0/8: %w", err)
	}
	return p, nil
}

// readdress replaces the address that a member sends when it introduces itself to another (which it does when it
// connects to the election port): instead of its own address it gives the one that the other knows it by, since the
// other may connect back. Both are equally long.
func readdress(own, known string) proxy.Tap {
	return func(int) (toServer, toClient func([]byte)) {
		introduced := false
		return func(chunk []byte) {
			if at := bytes.Index(chunk, []byte(own+":")); !introduced && at >= 0 {
				copy(chunk[at:], known)
			}
			introduced = true
		}, nil
	}
}

// quickElection takes the back-offs out of elections: without them most of the
// time of a start is spent waiting.
func quickElection() []string {
	return []string{
		"-Dzookeeper.cnxTimeout=500",
		"-Dzookeeper.fastleader.minNotificationInterval=300",
		"-Dzookeeper.fastleader.maxNotificationInterval=300",
	}
}

// Name implements [cluster.Cluster].
func (e *Ensemble) Name() string {
	return fmt.Sprintf("%s, ZooKeeper %s", e.processes(), e.version)
}

func (e *Ensemble) processes() string {
	if len(e.members) == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", len(e.members))
}

// Size implements [cluster.Cluster].
func (e *Ensemble) Size() int { return len(e.members) }

// ConnectString implements [cluster.Cluster].
func (e *Ensemble) ConnectString() string {
	var addrs []string
	for _, m := range e.members {
		addrs = append(addrs, m.clients.Addr())
	}
	return strings.Join(addrs, ",")
}

// Addr implements [cluster.Cluster].
func (e *Ensemble) Addr(i int) string { return e.members[i].clients.Addr() }

// Version is the release that the servers were first started with, as in 3.8.0.
func (e *Ensemble) Version() string { return e.version }

// SetVersion has a member that is down start with another release the next
// time: see Options.Version.
func (e *Ensemble) SetVersion(i int, version string) { e.members[i].release = version }

// VersionOf waits until a member serves, and returns the version it gives.
func (e *Ensemble) VersionOf(ctx context.Context, i int) (string, error) {
	return e.members[i].version(ctx)
}

// FourLetter sends a four-letter command to a member, past its proxy, and
// returns the answer. It gives up after 300 ms. Safe for concurrent use.
func (e *Ensemble) FourLetter(i int, command string) (string, error) {
	ctx, cancel := pollContext()
	defer cancel()
	return FourLetter(ctx, e.members[i].addr, command)
}

// Leader implements [cluster.Cluster].
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	leader := -1
	modes, err := e.await(ctx, func(modes []string) bool {
		leader = -1
		leaders := 0
		for i, mode := range modes {
			if mode == "leader" {
				leaders++
				leader = i
			}
		}
		return leaders == 1
	})
	if err != nil {
		return -1, fmt.Errorf("waiting for a leader, the members say %q: %w", modes, err)
	}
	return leader, nil
}

// AwaitServing implements [cluster.Cluster].
func (e *Ensemble) AwaitServing(ctx context.Context) error {
	modes, err := e.await(ctx, func(modes []string) bool {
		leaders := 0
		for i, mode := range modes {
			switch {
			case mode == "leader" || mode == "standalone":
				leaders++
			case mode == "" && e.members[i].awake():
				return false
			}
		}
		return leaders == 1
	})
	if err != nil {
		return fmt.Errorf("waiting for members to serve, they say %q: %w", modes, err)
	}
	return nil
}

// await asks the members for their modes until good returns true.
func (e *Ensemble) await(ctx context.Context, good func(modes []string) bool) (modes []string, err error) {
	modes = make([]string, len(e.members))
	err = until(ctx, func() (bool, error) {
		for i, m := range e.members {
			modes[i] = ""
			process := m.process.Load()
			if process == nil {
				continue
			}
			if err := m.ended(process); err != nil && m.process.Load() == process {
				if strings.Contains(m.log(m.logFrom), "Address already in use") {
					err = fmt.Errorf("%w: %w", errAddressInUse, err)
				}
				return false, err
			}
			if m.awake() {
				modes[i] = m.mode()
			}
		}
		return good(modes), nil
	})
	return modes, err
}

// Pid is the process id of a member that runs.
func (e *Ensemble) Pid(i int) (int, error) {
	process, err := e.members[i].running()
	if err != nil {
		return 0, err
	}
	return process.Pid(), nil
}

// Kill implements [cluster.Cluster].
func (e *Ensemble) Kill(i int) error { return e.members[i].kill() }

// Stop implements [cluster.Cluster].
func (e *Ensemble) Stop(i int) error { return e.members[i].stop() }

// Start implements [cluster.Cluster].
func (e *Ensemble) Start(i int) error { return e.members[i].launch() }

// Pause implements [cluster.Cluster]. On Linux no thread of the member runs any
// more when it returns.
func (e *Ensemble) Pause(i int) error { return e.members[i].pause() }

// Resume implements [cluster.Cluster].
func (e *Ensemble) Resume(i int) error { return e.members[i].resume() }

// Wipe implements [cluster.Cluster].
func (e *Ensemble) Wipe(i int) error { return e.members[i].wipe() }

// Partition implements [cluster.Cluster].
func (e *Ensemble) Partition(i int) error {
	for j := range e.members {
		if j == i {
			continue
		}
		if err := errors.Join(e.CutLink(i, j), e.CutLink(j, i)); err != nil {
			return err
		}
	}
	return nil
}

// PartitionNoticed is Partition, but the others notice immediately: their connections to the member are reset, as by
// a router that reports an unreachable network. The member gets no such report. That is the worst fault for the
// clients of a leader: the others have a new one long before.
func (e *Ensemble) PartitionNoticed(i int) error {
	for j, m := range e.members {
		if j == i {
			continue
		}
		for _, dialed := range e.members[i].peers[j] {
			dialed.Sever(proxy.ToServer)
		}
		for _, accepted := range m.peers[i] {
			accepted.Sever(proxy.ToClient)
		}
	}
	return nil
}

// CutLink implements [cluster.Cluster].
func (e *Ensemble) CutLink(from, to int) error {
	if from == to {
		return fmt.Errorf("member %d has no link to itself", from)
	}
	for _, dialed := range e.members[from].peers[to] {
		dialed.Hang(proxy.ToServer)
	}
	for _, accepted := range e.members[to].peers[from] {
		accepted.Hang(proxy.ToClient)
	}
	return nil
}

// HealPeers implements [cluster.Cluster].
func (e *Ensemble) HealPeers() error {
	e.eachLink((*proxy.Proxy).Heal)
	return nil
}

func (e *Ensemble) eachLink(do func(*proxy.Proxy)) {
	for _, m := range e.members {
		for _, links := range m.peers {
			for _, link := range links {
				do(link)
			}
		}
	}
}

// CutClients implements [cluster.Cluster].
func (e *Ensemble) CutClients(i int) { e.members[i].clients.Cut() }

// HangClients implements [cluster.Cluster].
func (e *Ensemble) HangClients(i int, way proxy.Direction) { e.members[i].clients.Hang(way) }

// HealClients implements [cluster.Cluster].
func (e *Ensemble) HealClients(i int) { e.members[i].clients.Heal() }

// end leaves nothing running.
func (e *Ensemble) end() {
	for _, m := range e.members {
		m.end()
		_ = m.wipe()
	}
	e.eachLink((*proxy.Proxy).Close)
	for _, m := range e.members {
		if m.clients != nil {
			m.clients.Close()
		}
		m.peers, m.clients = nil, nil
	}
}

func (e *Ensemble) cleanUp() {
	if e.t.Failed() {
		for _, m := range e.members {
			e.t.Logf("log of %s:\n%s", m.name, m.log(0))
		}
	}
	e.end()
}
