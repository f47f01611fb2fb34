package zkcontainer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
)

const (
	// DefaultImage is used when neither ZOOKEEPER_IMAGE nor testcontainers.WithImage says otherwise.
	DefaultImage = "zookeeper:3.9"

	clientPort = "2181/tcp"

	// startTimeout bounds a start, the pull of an image included, for callers that give no deadline.
	startTimeout = 5 * time.Minute
)

// ErrNoImage means that the image is neither on the machine nor available.
var ErrNoImage = errors.New("zkcontainer: no image of ZooKeeper: where no registry can be reached, export " +
	"ZOOKEEPER_IMAGE=$(integration/image/build)")

// Container is one ZooKeeper server in a container. It has the methods of testcontainers, which document their safety
// for concurrent use; Stop and Start keep the data, and Start returns when the server serves again. Call Terminate,
// or testcontainers.CleanupContainer before looking at the error of [Run].
type Container struct {
	*testcontainers.DockerContainer
	addr string
}

// Run starts one server and returns when it serves, within five minutes if ctx has no deadline. Options are options
// of testcontainers and of this package. The client port is published at 127.0.0.1; at all addresses only where
// Docker's host is another one (DOCKER_HOST, tests in a container). An error matches [ErrNoDocker] or [ErrNoImage] if
// that is the cause; the container may then be nil, which Terminate accepts.
func Run(ctx context.Context, opts ...testcontainers.ContainerCustomizer) (*Container, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	made, addr, err := launch(ctx,
		append([]testcontainers.ContainerCustomizer{testcontainers.WithWaitStrategy(&serves{})}, opts...)...)
	if made == nil {
		return nil, err
	}
	return &Container{made, addr}, err
}

// Start starts a container that was stopped and returns when it serves, within five minutes if ctx has no deadline. While
// another process has its port on the host it tries again.
func (c *Container) Start(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		err := c.DockerContainer.Start(ctx)
		if err == nil || !portTaken.MatchString(err.Error()) || !pause(ctx) {
			return err
		}
	}
}

// ConnectionString is the host:port that a client needs. It stays the same over Stop and Start, and is there
// while the server is down. It does not block; ctx is for the likeness to testcontainers' modules.
func (c *Container) ConnectionString(ctx context.Context) (string, error) { return c.addr, ctx.Err() }

// Terminate removes the container with its data. A container that was removed before, or never existed, is not an
// error.
func (c *Container) Terminate(ctx context.Context, opts ...testcontainers.TerminateOption) error {
	if c == nil {
		return nil
	}
	return c.DockerContainer.Terminate(ctx, opts...)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, startTimeout)
}

// portTaken matches Docker's messages for a port on the host that another process has.
var portTaken = regexp.MustCompile(
	`port is already allocated|address already in use|[Pp]orts are not available`)

// launch runs a container with a published port that it keeps over restarts, and returns its address.
func launch(
	ctx context.Context, opts ...testcontainers.ContainerCustomizer,
) (*testcontainers.DockerContainer, string, error) {
	for attempt := 1; ; attempt++ {
		made, addr, err := launchAt(ctx, pickPort(), opts...)
		if err == nil || !portTaken.MatchString(err.Error()) || attempt == 5 || ctx.Err() != nil {
			return made, addr, err
		}
		if err := testcontainers.TerminateContainer(made, testcontainers.StopTimeout(0)); err != nil {
			return made, addr, err
		}
	}
}

func launchAt(
	ctx context.Context, port int, opts ...testcontainers.ContainerCustomizer,
) (*testcontainers.DockerContainer, string, error) {
	image := DefaultImage
	if other := os.Getenv("ZOOKEEPER_IMAGE"); other != "" {
		image = other
	}
	host, err := publishedTo(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("zkcontainer: where Docker's ports are: %w", err)
	}
	all := []testcontainers.ContainerCustomizer{testcontainers.CustomizeRequestOption(defaults)}
	all = append(all, opts...)
	all = append(all,
		publishedAt(host, port),
		testcontainers.WithLabels(labels()),
		testcontainers.CustomizeRequestOption(func(req *testcontainers.GenericContainerRequest) error {
			image = req.Image
			return nil
		}))
	made, err := testcontainers.Run(ctx, image, all...)
	if err != nil {
		if !haveImage(image) {
			return made, "", fmt.Errorf("%w: %s: %w", ErrNoImage, image, err)
		}
		return made, "", fmt.Errorf("zkcontainer: %s: %w", image, err)
	}
	name, err := made.Host(ctx)
	if err != nil {
		return made, "", fmt.Errorf("zkcontainer: %s: %w", image, err)
	}
	// Docker knows no port of a container that has ended already
	return made, plain(net.JoinHostPort(name, strconv.Itoa(port))), nil
}

// publishedTo returns the address on Docker's host for client ports. The servers do not authenticate clients, so it
// is the loopback if this process shares that with Docker. If not (a daemon on another machine, or tests in a
// container), it is all addresses: the zero one.
func publishedTo(ctx context.Context) (netip.Addr, error) {
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return netip.Addr{}, err
	}
	defer provider.Close()
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	return loopback(host), nil
}

func loopback(host string) netip.Addr {
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.Addr{}
}

// publishedAt has the host publish the client port, and that alone, at an address and a port of our choice:
// one of Docker's would change with every start.
func publishedAt(host netip.Addr, port int) testcontainers.CustomizeRequestOption {
	return func(req *testcontainers.GenericContainerRequest) error {
		req.ExposedPorts = append(req.ExposedPorts, clientPort)
		theirs := req.HostConfigModifier
		req.HostConfigModifier = func(config *container.HostConfig) {
			if theirs != nil {
				theirs(config)
			}
			if config.PortBindings == nil {
				config.PortBindings = network.PortMap{}
			}
			config.PortBindings[network.MustParsePort(clientPort)] = []network.PortBinding{{HostIP: host,
				HostPort: strconv.Itoa(port)}}
		}
		return nil
	}
}

// plain spares clients the two addresses of localhost, since Docker may serve only one of them.
func plain(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// pickPort is a variable for the tests.
var pickPort = freePort

// freePort returns a port below the system's own range and those of package zkserver, so that no process gets it by
// chance while the server is down.
func freePort() int {
	const low, high = 10000, 15000
	for range 100 {
		port := low + rand.IntN(high-low)
		if listener, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			listener.Close()
			return port
		}
	}
	return low + rand.IntN(high-low) // Docker will report the conflict
}
