package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// connect gives the examples a ZooKeeper and two clients of it.
func connect() (*zktest.Server, *framework.Client, *framework.Client) {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	var clients [2]*framework.Client
	for i := range clients {
		if clients[i], err = framework.New(server.Addr(), framework.WithDialer(server.Dial)); err != nil {
			panic(err)
		}
	}
	return server, clients[0], clients[1]
}

// queue returns when there are n contenders in the line.
func queue(client *framework.Client, path string, n int) {
	for {
		line, err := inspect.Who(context.Background(), client, path)
		if err != nil {
			panic(err)
		}
		if len(line.Holders)+len(line.Waiting) == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func ExampleWho() {
	server, billing, shipping := connect() // framework.New("zk1:2181,zk2:2181"), in two processes
	defer server.Close()
	defer billing.Close()
	defer shipping.Close()
	ctx := context.Background()

	lock, err := mutex.New(billing, "/locks/orders", mutex.WithNodeData([]byte("billing"))).Acquire(ctx)
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() {
		waiting := mutex.New(shipping, "/locks/orders", mutex.WithNodeData([]byte("shipping")))
		done <- waiting.Do(ctx, func(context.Context) error { return nil })
	}()
	queue(billing, "/locks/orders", 2)

	line, err := inspect.Who(ctx, billing, "/locks/orders")
	if err != nil {
		panic(err)
	}
	fmt.Println(line.Kind)
	for _, p := range line.Holders {
		fmt.Println("holds:", string(p.Data), p.Library)
	}
	for _, p := range line.Waiting {
		fmt.Println("waits:", string(p.Data), p.Library)
	}
	fmt.Println(lock.Release(ctx), <-done)
	// Output:
	// mutex
	// holds: billing go
	// waits: shipping go
	// <nil> <nil>
}

func ExampleFollowWho() {
	server, client, other := connect()
	defer server.Close()
	defer client.Close()
	defer other.Close()
	ctx := context.Background()
	lock, err := mutex.New(client, "/locks/orders").Acquire(ctx)
	if err != nil {
		panic(err)
	}

	for line, err := range inspect.FollowWho(ctx, other, "/locks/orders") {
		if err != nil {
			panic(err)
		}
		if len(line.Holders) == 0 {
			fmt.Println("it is free")
			break
		}
		fmt.Println("it is held")
		if err := lock.Release(ctx); err != nil {
			panic(err)
		}
	}
	// Output:
	// it is held
	// it is free
}

func ExampleLocks() {
	server, client, other := connect()
	defer server.Close()
	defer client.Close()
	defer other.Close()
	ctx := context.Background()
	for _, path := range []string{"/shop/locks/orders", "/shop/locks/stock"} {
		if _, err := mutex.New(client, path).Acquire(ctx); err != nil {
			panic(err)
		}
	}

	found, err := inspect.Locks(ctx, other, "/")
	if err != nil {
		panic(err)
	}
	for _, line := range found.Lines {
		fmt.Println(line.Path, line.Kind, len(line.Holders), "holds,", len(line.Waiting), "wait")
	}
	fmt.Printf("stopped early: %q\n", found.Stopped)
	// Output:
	// /shop/locks/orders mutex 1 holds, 0 wait
	// /shop/locks/stock mutex 1 holds, 0 wait
	// stopped early: ""
}

func ExampleWhy() {
	server, first, second := connect()
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	take := func(c *framework.Client, path string) {
		if _, err := mutex.New(c, path).Acquire(ctx); err != nil {
			panic(err)
		}
	}
	take(first, "/locks/a")
	take(second, "/locks/b")
	done := make(chan error, 2)
	go func() { _, err := mutex.New(first, "/locks/b").Acquire(ctx); done <- err }()
	go func() { _, err := mutex.New(second, "/locks/a").Acquire(ctx); done <- err }()
	queue(first, "/locks/a", 2)
	queue(first, "/locks/b", 2)

	graph, err := inspect.Why(ctx, first, "/locks")
	if err != nil {
		panic(err)
	}
	time.Sleep(100 * time.Millisecond) // some seconds are better
	again, err := inspect.Why(ctx, first, "/locks")
	if err != nil {
		panic(err)
	}
	for _, circle := range again.Lasting(graph).Circles {
		fmt.Println("possibly a deadlock of", len(circle), "sessions")
	}
	for _, edge := range graph.Chain("/locks/a") {
		fmt.Println("somebody waits at", edge.Path)
	}
	cancel()
	<-done
	<-done
	first.Close()
	second.Close()
	// Output:
	// possibly a deadlock of 2 sessions
	// somebody waits at /locks/a
	// somebody waits at /locks/b
}

func ExampleDoctor() {
	server, client, other := connect()
	defer server.Close()
	defer client.Close()
	defer other.Close()
	ctx := context.Background()
	if err := client.WaitConnected(ctx); err != nil {
		panic(err)
	}

	report, err := inspect.Doctor(ctx, client)
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Rule)
	for _, advice := range report.Advice {
		fmt.Println("-", advice)
	}
	// Output:
	// bound: standalone server; holds are lost 39s after the last request that got a reply
	// - the server is standalone: while it is down no lock can be acquired, and its disk has the only copy
}
