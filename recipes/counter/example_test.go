package counter_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/zktest"
)

// connect returns a ZooKeeper server for the examples, and a client of it.
func connect() (*zktest.Server, *framework.Client) {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		panic(err)
	}
	return server, client
}

func Example() {
	server, client := connect() // framework.New("zk1:2181,zk2:2181")
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	orders := counter.NewLong(client, "/counters/orders") // keep it, and share it
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if _, err := orders.Add(ctx, 1); err != nil {
					fmt.Println(err)
				}
			}
		})
	}
	wg.Wait()
	seen, err := orders.Get(ctx)
	fmt.Println(seen.N, err)
	// Output:
	// 80 <nil>
}

func ExampleIDs() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	ids := counter.NewIDs(counter.NewLong(client, "/ids/orders"), 1000) // one write for a thousand
	for range 3 {
		fmt.Println(ids.Next(context.Background()))
	}
	// Output:
	// 0 <nil>
	// 1 <nil>
	// 2 <nil>
}

func ExampleValue_Update() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	type limits struct{ Reads, Writes int }
	v := counter.NewValue(client, "/limits", counter.JSON[limits]())
	if _, err := v.CreateIfMissing(ctx, limits{Reads: 100, Writes: 10}); err != nil {
		fmt.Println(err)
		return
	}
	now, err := v.Update(ctx, func(l limits) (limits, error) {
		l.Writes *= 2
		return l, nil
	})
	fmt.Println(now.N.Reads, now.N.Writes, err)
	// Output:
	// 100 20 <nil>
}

func ExampleValue_Watch() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	count := counter.NewCount(client, "/limits/exports-max") // Curator's SharedCount
	if err := count.Set(ctx, 1); err != nil {
		fmt.Println(err)
		return
	}
	for v, err := range count.Watch(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("limit:", v.N)
		if v.N == 3 {
			return
		}
		if _, err := count.CompareAndSet(ctx, v, v.N+1); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// limit: 1
	// limit: 2
	// limit: 3
}

func ExampleValue_Follow() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()
	if err := client.WaitConnected(ctx); err != nil { // otherwise the first view may have the state without a connection
		fmt.Println(err)
		return
	}

	count := counter.NewCount(client, "/limits/exports-max")
	for v, err := range count.Follow(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case v.Missing:
			fmt.Println("not set yet")
			if err := count.Set(ctx, 5); err != nil {
				fmt.Println(err)
			}
		case !v.Current:
			fmt.Println(v.N, "or so, the connection is away:", v.State.State)
		default:
			fmt.Println(v.N)
			return
		}
	}
	// Output:
	// not set yet
	// 5
}

func ExampleWithLock() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	n := counter.NewInteger(client, "/counters/visits", counter.WithLock("/counters/visits-lock"))
	fmt.Println(n.Add(context.Background(), 5))
	fmt.Println(n.Add(context.Background(), -2))
	// Output:
	// 5 <nil>
	// 3 <nil>
}
