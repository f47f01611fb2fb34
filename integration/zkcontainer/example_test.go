package zkcontainer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/zkcontainer"
	"github.com/go-curator/curator/recipes/mutex"
)

// One server for a service's integration tests. In a test, testcontainers.CleanupContainer(t, server) takes
// the place of the deferred call. It needs Docker and an image of ZooKeeper (README.md); without them Run's error
// matches zkcontainer.ErrNoDocker, or names the image.
func ExampleRun() {
	ctx := context.Background()
	server, err := zkcontainer.Run(ctx)
	defer func() { _ = testcontainers.TerminateContainer(server) }()
	if err != nil {
		fmt.Println(err)
		return
	}
	connect, err := server.ConnectionString(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	client, err := framework.New(connect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	if _, err := client.Create().ForPath(ctx, "/greeting", []byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	data, err := client.GetData().ForPath(ctx, "/greeting")
	fmt.Println(string(data), err)
	// Output: hello <nil>
}

// A lock outlives the server that its holder is connected to.
func ExampleRunEnsemble() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	servers, err := zkcontainer.RunEnsemble(ctx, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = servers.Terminate(context.Background()) }()

	client, err := framework.New(servers.ConnectString(), framework.WithSessionTimeout(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock, err := mutex.New(client, "/locks/orders").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	leader, err := servers.Leader(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("killed:", servers.Kill(leader))
	fmt.Println("released:", lock.Release(ctx))
	// Output:
	// killed: <nil>
	// released: <nil>
}
