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

// A port that somebody else took first is not the end.
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

// A member that is started again waits for whoever has borrowed its port.
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
