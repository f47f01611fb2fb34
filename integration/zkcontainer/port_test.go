package zkcontainer

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
)

// The servers are for this machine: no other machine can reach their ports.
func TestPublishedForThisMachine(t *testing.T) {
	server, err := Run(t.Context())
	testcontainers.CleanupContainer(t, server, testcontainers.StopTimeout(0))
	require.NoError(t, err)
	members := []*testcontainers.DockerContainer{server.DockerContainer}
	e, err := RunEnsemble(t.Context(), 1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, e.Terminate(t.Context())) }()
	members = append(members, e.members[0].container)
	for _, c := range members {
		state, err := c.Inspect(t.Context())
		require.NoError(t, err)
		published := 0
		for port, bindings := range state.NetworkSettings.Ports {
			for _, b := range bindings {
				published++
				assert.True(t, b.HostIP.IsLoopback(), "%s at %s", port, b.HostIP)
			}
		}
		assert.Equal(t, 1, published)
	}
	assert.True(t, loopback("localhost").IsLoopback())
	assert.True(t, loopback("::1").IsLoopback())
	assert.False(t, loopback("192.0.2.1").IsValid(), "a daemon elsewhere: its own loopback is not ours")
	assert.False(t, loopback("docker.example.com").IsValid())
}

// A port that another process took first is not an error.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer taken.Close()
	picked := 0
	pickPort = func() int {
		if picked++; picked == 1 {
			return taken.Addr().(*net.TCPAddr).Port
		}
		return freePort()
	}
	defer func() { pickPort = freePort }()
	server, err := Run(t.Context())
	testcontainers.CleanupContainer(t, server, testcontainers.StopTimeout(0))
	require.NoError(t, err)
	assert.Equal(t, 2, picked)
	assert.NotContains(t, server.addr, strconv.Itoa(taken.Addr().(*net.TCPAddr).Port))
}

// A member that is started again waits until its port is free again.
func TestBorrowedPort(t *testing.T) {
	e, err := RunEnsemble(t.Context(), 1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, e.Terminate(t.Context())) }()
	require.NoError(t, e.Kill(0))
	borrowed, err := net.Listen("tcp", ":"+strconv.Itoa(e.members[0].port))
	require.NoError(t, err)
	started := make(chan error, 1)
	go func() { started <- e.Start(0) }()
	select {
	case err := <-started:
		t.Fatalf("started on a port that is taken: %v", err)
	case <-time.After(time.Second):
	}
	require.NoError(t, borrowed.Close())
	require.NoError(t, <-started)
	require.NoError(t, e.AwaitServing(t.Context()))
}
