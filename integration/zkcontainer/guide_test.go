package zkcontainer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/zkcontainer"
	"github.com/go-curator/curator/recipes/mutex"
)

// The code of docs/real-zookeeper.md.

// [real: a test]
func TestOrders(t *testing.T) {
	server, err := zkcontainer.Run(t.Context())
	testcontainers.CleanupContainer(t, server) // before the look at err: a container may be there
	require.NoError(t, err)
	connect, err := server.ConnectionString(t.Context())
	require.NoError(t, err)

	client, err := framework.New(connect, framework.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	defer client.Close()
	lock, err := mutex.New(client, "/locks/orders").Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}

// [end]
