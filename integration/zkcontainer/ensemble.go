package zkcontainer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"

	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/proxy"
)

var _ cluster.Cluster = (*Ensemble)(nil)

// Ensemble is a group of servers in containers that form one ZooKeeper; with one member it is a standalone server.
// The members communicate on a separate network, and are published to the host by another, so that they can be cut
// off from each other while clients reach them. Clients come through a proxy for each member, in this process, whose
// address stays the same for life.
//
// The faults are described at [cluster.Cluster]. Docker's part of them ends within a minute.
type Ensemble struct {
	docker    *testcontainers.DockerClient
	network   string // its name
	networkID string
	opts      []testcontainers.ContainerCustomizer
	members   []*member
	image     string
	version   string
}

// member is one server. All but its proxy may be replaced during its life: by Wipe.
type member struct {
	proxy *proxy.Proxy
	port  int // on the host

	mu          sync.Mutex
	container   *testcontainers.DockerContainer // nil once wiped; guarded by mu
	addr        string                          // where the host publishes it; guarded by mu
	state       state                           // guarded by mu
	partitioned bool                            // guarded by mu
}

type state int

const (
	down state = iota
	running
	paused
)

// RunEnsemble starts size servers and returns when all serve, within five minutes if ctx has no deadline. Options are
// as for [Run]; they apply to every member. After an error nothing is left.
func RunEnsemble(
	ctx context.Context, size int, opts ...testcontainers.ContainerCustomizer,
) (*Ensemble, error) {
	if size < 1 {
		return nil, fmt.Errorf("zkcontainer: an ensemble of %d", size)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	docker, err := newClient(ctx)
	if err != nil {
		return nil, err
	}
	e := &Ensemble{docker: docker, opts: opts}
	if err := e.start(ctx, size); err != nil {
		return nil, errors.Join(err, e.Terminate(context.WithoutCancel(ctx)))
	}
	return e, nil
}

func (e *Ensemble) start(ctx context.Context, size int) error {
	all := testcontainers.GenericLabels() // Ryuk's, among others
	for key, value := range labels() {
		all[key] = value
	}
	// Docker publishes ports by the first network in alphabetical order, which has to be the bridge.
	e.network = "zookeeper-" + strings.ToLower(rand.Text())
	made, err := e.docker.NetworkCreate(ctx, e.network,
		client.NetworkCreateOptions{Driver: "bridge", Labels: all})
	if err != nil {
		return fmt.Errorf("zkcontainer: network: %w", err)
	}
	e.networkID = made.ID
	for range size {
		e.members = append(e.members, &member{})
	}
	errs := make([]error, size)
	var starting sync.WaitGroup
	for i := range e.members {
		starting.Go(func() { errs[i] = e.create(ctx, i) })
	}
	starting.Wait()
	if err := firstOf(errs...); err != nil { // the others have the same cause
		return err
	}
	for _, m := range e.members {
		if m.proxy, err = proxy.Listen(proxy.Settings{Addr: "127.0.0.1:0", Target: m.addr}); err != nil {
			return fmt.Errorf("zkcontainer: proxy: %w", err)
		}
	}
	if err := e.AwaitServing(ctx); err != nil {
		return err
	}
	e.image = e.members[0].container.Image
	e.version = version(ctx, e.members[0].addr)
	return nil
}

// create makes the container of a member and starts it.
func (e *Ensemble) create(ctx context.Context, i int) error {
	m := e.members[i]
	opts := append([]testcontainers.ContainerCustomizer{fastElections}, e.opts...)
	opts = append(opts,
		testcontainers.WithEnv(map[string]string{"ZOO_MY_ID": strconv.Itoa(i + 1), "ZOO_SERVERS": e.servers()}),
		network.WithBridgeNetwork())
	if !m.partitioned {
		opts = append(opts, network.WithNetworkName([]string{alias(i)}, e.network))
	}
	var container *testcontainers.DockerContainer
	var addr string
	var err error
	if m.port == 0 {
		container, addr, err = launch(ctx, opts...)
	} else {
		container, addr, err = launchAt(ctx, m.port, opts...)
	}
	if err == nil && m.port == 0 {
		m.port, err = portOf(addr)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.container, m.addr = container, addr
	if err == nil {
		m.state = running
	}
	return err
}

// fastElections: what costs when an ensemble starts is not the JVM but the pauses between the rounds of its
// election.
var fastElections = testcontainers.CustomizeRequestOption(func(
	req *testcontainers.GenericContainerRequest,
) error {
	add(req, jvmFlags, "-Dzookeeper.cnxTimeout=500",
		"-Dzookeeper.fastleader.minNotificationInterval=300", "-Dzookeeper.fastleader.maxNotificationInterval=300")
	// A member that was cut off comes back with another address.
	add(req, extra, "quorumListenOnAllIPs=true")
	return nil
})

func (e *Ensemble) servers() string {
	var servers []string
	for i := range e.members {
		servers = append(servers, fmt.Sprintf("server.%d=%s:2888:3888;2181", i+1, alias(i)))
	}
	return strings.Join(servers, " ")
}

// alias is a member's name on the ensemble's network.
func alias(i int) string { return fmt.Sprintf("zoo%d", i+1) }

// Terminate ends the proxies and removes the containers, with their data, and the network. Containers that were
// removed before are not an error.
func (e *Ensemble) Terminate(ctx context.Context) error {
	if e == nil {
		return nil
	}
	errs := make([]error, len(e.members))
	var ending sync.WaitGroup
	for i, m := range e.members {
		ending.Go(func() {
			if m.proxy != nil {
				m.proxy.Close()
			}
			m.mu.Lock()
			container := m.container
			m.container, m.state = nil, down
			m.mu.Unlock()
			errs[i] = testcontainers.TerminateContainer(container, testcontainers.StopContext(ctx),
				testcontainers.StopTimeout(0))
		})
	}
	ending.Wait()
	if e.networkID != "" {
		if _, err := e.docker.NetworkRemove(ctx, e.networkID, client.NetworkRemoveOptions{}); err != nil &&
			!isNotFound(err) {
			errs = append(errs, fmt.Errorf("zkcontainer: network: %w", err))
		}
	}
	return errors.Join(append(errs, e.docker.Close())...)
}

// Name describes it, for reports: "3 containers, ZooKeeper 3.9.3 (zookeeper:3.9)".
func (e *Ensemble) Name() string {
	plural := "s"
	if len(e.members) == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d container%s, ZooKeeper %s (%s)", len(e.members), plural, e.version, e.image)
}

// Size is the number of members.
func (e *Ensemble) Size() int { return len(e.members) }

// ConnectString names all members, as a client wants it.
func (e *Ensemble) ConnectString() string {
	var addrs []string
	for _, m := range e.members {
		addrs = append(addrs, m.proxy.Addr())
	}
	return strings.Join(addrs, ",")
}

// Addr is the host:port of one member for clients.
func (e *Ensemble) Addr(i int) string { return e.members[i].proxy.Addr() }

// Container is a member's container; nil after [Ensemble.Wipe], until the next [Ensemble.Start].
func (e *Ensemble) Container(i int) *testcontainers.DockerContainer {
	m := e.members[i]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.container
}

// CutClients closes the connections of a member's clients and refuses new ones.
func (e *Ensemble) CutClients(i int) { e.members[i].proxy.Cut() }

// HangClients holds back the bytes between a member and its clients, the given way, until HealClients.
func (e *Ensemble) HangClients(i int, way proxy.Direction) { e.members[i].proxy.Hang(way) }

// HealClients undoes CutClients and HangClients.
func (e *Ensemble) HealClients(i int) { e.members[i].proxy.Heal() }
