package barrier_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/zktest"
)

// connect returns a client of an embedded server; give framework.New the addresses of yours.
func connect() (*framework.Client, func()) {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { _ = client.Close(); server.Close() }
}

// All processes wait while one migrates the data.
func ExampleBarrier() {
	client, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	b := barrier.New(client, "/barriers/migration")
	if err := b.Set(ctx); err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // in another process
		if err := b.Wait(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("working")
	})
	fmt.Println("migrating")
	if err := b.Remove(ctx); err != nil {
		log.Fatal(err)
	}
	wg.Wait()
	// Output:
	// migrating
	// working
}

// Three workers begin each step together.
func ExampleDouble() {
	client, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	d := barrier.NewDouble(client, "/barriers/steps", 3)
	steps := make(chan int, 6)
	worker := func() error {
		for step := 1; step <= 2; step++ {
			member, err := d.Enter(ctx) // waits until three have entered
			if err != nil {
				return err
			}
			steps <- step                             // work under member.Context()
			if err := member.Leave(ctx); err != nil { // waits until all three are done
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for range 3 { // in three processes
		wg.Go(func() {
			if err := worker(); err != nil {
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	close(steps)
	for step := range steps {
		fmt.Print(step, " ")
	}
	// Output:
	// 1 1 1 2 2 2
}
