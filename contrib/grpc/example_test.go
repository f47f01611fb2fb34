package curatorgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"

	curatorgrpc "github.com/go-curator/curator/contrib/grpc"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/zktest"
)

// A gRPC client finds the server by the name of its service.
func Example() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	zk, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer zk.Close()
	ctx := context.Background()
	services, err := discovery.New[any](zk, "/services")
	if err != nil {
		log.Fatal(err)
	}

	// The server, in practice in its own process.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	web := grpc.NewServer()
	health_v1.RegisterHealthServer(web, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	defer func() { web.Stop(); <-served }()
	at := listener.Addr().(*net.TCPAddr)
	me, err := services.Register(ctx, discovery.Instance[any]{Name: "web", Address: at.IP.String(), Port: at.Port})
	if err != nil {
		log.Fatal(err)
	}
	defer me.Unregister(ctx)

	connection, err := grpc.NewClient("curator:///web", grpc.WithResolvers(curatorgrpc.NewBuilder(services)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	answer, err := health_v1.NewHealthClient(connection).Check(ctx, &health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	fmt.Println(answer.GetStatus(), err)
	// Output:
	// SERVING <nil>
}
