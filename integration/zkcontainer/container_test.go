package zkcontainer_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkcontainer"
	"github.com/go-curator/curator/integration/zkserver"
)

// run starts a server that ends with the test.
func run(t *testing.T, opts ...testcontainers.ContainerCustomizer) (*zkcontainer.Container, string) {
	t.Helper()
	began := time.Now()
	server, err := zkcontainer.Run(kit.Context(t), opts...)
	testcontainers.CleanupContainer(t, server, testcontainers.StopTimeout(0))
	require.NoError(t, err)
	kit.RanOn(t, "1 container")
	kit.Figure(t, "one server in a container served after %v", time.Since(began).Round(10*time.Millisecond))
	connect, err := server.ConnectionString(t.Context())
	require.NoError(t, err)
	return server, connect
}

// A server that is stopped and started again has the address, the data and the session that it had.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	ctx := kit.Context(t)
	server, connect := run(t)
	client, session := kit.Connected(t, connect, framework.WithSessionTimeout(20*time.Second))
	_, err := client.Create().ForPath(ctx, "/kept", []byte("data"))
	require.NoError(t, err)
	require.NoError(t, server.Stop(ctx, nil))
	still, err := server.ConnectionString(ctx)
	require.NoError(t, err)
	assert.Equal(t, connect, still, "also while it is down")
	require.NoError(t, server.Start(ctx))
	still, err = server.ConnectionString(ctx)
	require.NoError(t, err)
	assert.Equal(t, connect, still)
	answer, err := zkserver.FourLetter(ctx, connect, "srvr")
	require.NoError(t, err)
	assert.Contains(t, answer, "Mode: standalone", "it serves at once")
	data, err := client.GetData().ForPath(ctx, "/kept")
	require.NoError(t, err)
	assert.Equal(t, "data", string(data))
	assert.NoError(t, session.Context().Err(), "the session goes on")
}

// Another process may have the port for a moment, such as a process of Docker's that has not ended yet.
func TestStartWhileThePortIsTaken(t *testing.T) {
	t.Parallel()
	ctx := kit.Context(t)
	server, connect := run(t)
	require.NoError(t, server.Stop(ctx, nil))
	var other net.Listener
	require.Eventually(t, func() (free bool) {
		var err error
		other, err = net.Listen("tcp", connect)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	started := make(chan error, 1)
	go func() { started <- server.Start(ctx) }()
	select {
	case err := <-started:
		require.NoError(t, other.Close())
		require.Fail(t, "started at a port that is taken", "%v", err)
	case <-time.After(time.Second):
	}
	require.NoError(t, other.Close())
	require.NoError(t, <-started)
	answer, err := zkserver.FourLetter(ctx, connect, "srvr")
	require.NoError(t, err)
	assert.Contains(t, answer, "Mode: standalone")
}

func TestOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	_, connect := run(t,
		zkcontainer.WithTickTime(250*time.Millisecond),
		zkcontainer.WithConfig("maxSessionTimeout=7000", "minSessionTimeout=900"),
		zkcontainer.WithJVMFlags("-Dzookeeper.extendedTypesEnabled=true"))
	conf, err := zkserver.FourLetter(kit.Context(t), connect, "conf")
	require.NoError(t, err)
	assert.Contains(t, conf, "tickTime=250\n")
	assert.Contains(t, conf, "maxSessionTimeout=7000\n", "the last of two lines counts")
	assert.Contains(t, conf, "minSessionTimeout=900\n")
	client, _ := kit.Connected(t, connect)
	_, err = client.Create().WithMode(framework.PersistentTTL).WithTTL(time.Hour).
		ForPath(kit.Context(t), "/ttl", nil)
	assert.NoError(t, err, "the JVM's flag allows it")
}

func TestBadOptions(t *testing.T) {
	for _, bad := range []testcontainers.ContainerCustomizer{
		zkcontainer.WithTickTime(0), zkcontainer.WithTickTime(-time.Second),
		zkcontainer.WithTickTime(time.Microsecond),
		zkcontainer.WithSyncLimit(0), zkcontainer.WithConfig("a = b"), zkcontainer.WithConfig("alone"),
		zkcontainer.WithConfig("=b"),
		zkcontainer.WithJVMFlags(""), zkcontainer.WithJVMFlags("-Da=b c"),
	} {
		server, err := zkcontainer.Run(t.Context(), bad)
		testcontainers.CleanupContainer(t, server)
		assert.ErrorContains(t, err, "zkcontainer: ")
	}
	ensemble, err := zkcontainer.RunEnsemble(t.Context(), 2, zkcontainer.WithTickTime(0))
	assert.ErrorContains(t, err, "less than a millisecond")
	assert.Nil(t, ensemble)
	_, err = zkcontainer.RunEnsemble(t.Context(), 0)
	assert.Error(t, err)
}

// An image that is not available is an immediate error that names the remedy.
func TestNoImage(t *testing.T) {
	server, err := zkcontainer.Run(kit.Context(t), testcontainers.WithImage("127.0.0.1:1/zookeeper:none"))
	testcontainers.CleanupContainer(t, server)
	require.ErrorIs(t, err, zkcontainer.ErrNoImage)
	assert.ErrorContains(t, err, "ZOOKEEPER_IMAGE")
	assert.ErrorContains(t, err, "127.0.0.1:1/zookeeper:none")
	assert.NotErrorIs(t, err, context.DeadlineExceeded, "it does not go on trying")
}

// A server that ends while it starts is an immediate error.
func TestServerThatEnds(t *testing.T) {
	t.Parallel()
	server, err := zkcontainer.Run(kit.Context(t), zkcontainer.WithJVMFlags("-Xmx1k"))
	testcontainers.CleanupContainer(t, server)
	require.ErrorContains(t, err, "ended with status 1")
	ensemble, err := zkcontainer.RunEnsemble(kit.Context(t), 1, zkcontainer.WithJVMFlags("-Xmx1k"))
	require.ErrorContains(t, err, "ended by itself with status 1")
	assert.ErrorContains(t, err, "heap", "with the end of its log")
	assert.Nil(t, ensemble)
}
