package assignment_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/assignment"
	"github.com/go-curator/curator/zktest"
)

func Example() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	defer server.Close()

	shards := []string{"shard-0", "shard-1", "shard-2", "shard-3"}
	names := []string{"blue", "green"}
	has := make([]atomic.Int32, len(names))
	ctx, stop := context.WithCancel(context.Background())
	var processes sync.WaitGroup
	for i, name := range names { // stands for as many processes
		client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
		if err != nil {
			panic(err)
		}
		defer client.Close()
		a := assignment.New(client, "/indexer", shards, assignment.WithID(name))
		processes.Go(func() {
			_ = a.Run(ctx, func(ctx context.Context, item assignment.Item) error {
				has[i].Add(1)
				defer has[i].Add(-1)
				<-ctx.Done() // work on the shard item.Name() until it moves to another process
				return nil
			})
		})
	}
	for has[0].Load() != 2 || has[1].Load() != 2 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("each has two shards")
	stop()
	processes.Wait()
	// Output: each has two shards
}

func ExampleAssignment_SetItems() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		panic(err)
	}
	defer client.Close()

	ctx, stop := context.WithCancel(context.Background())
	tenants := assignment.New(client, "/mail", []string{"anna"}, assignment.WithSettle(time.Millisecond))
	done, served := make(chan error), make(chan string)
	go func() {
		done <- tenants.Run(ctx, func(ctx context.Context, item assignment.Item) error {
			served <- item.Name()
			<-ctx.Done()
			served <- "no more " + item.Name()
			return nil
		})
	}()
	fmt.Println(<-served)
	set := make(chan error)
	go func() { set <- tenants.SetItems(ctx, []string{"bert"}) }()
	now := []string{<-served, <-served}
	slices.Sort(now)
	fmt.Println(now, <-set)
	stop()
	fmt.Println(<-served)
	<-done
	// Output:
	// anna
	// [bert no more anna] <nil>
	// no more bert
}
