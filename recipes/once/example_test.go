package once_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/once"
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

	jobs := once.New(client, "/cron")
	noon := time.Date(2026, 11, 23, 12, 0, 7, 0, time.UTC)
	for range 3 { // stands for as many processes
		outcome, err := jobs.Do(context.Background(), "report", once.At(noon, time.Hour),
			func(_ context.Context, run once.Run) error {
				fmt.Println("the report of", run.Slot)
				return nil
			})
		fmt.Println(outcome, err)
	}
	// Output:
	// the report of 2026-11-23T12:00:00Z
	// ran <nil>
	// done <nil>
	// done <nil>
}

func ExampleAtMostOnce() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	jobs := once.New(client, "/releases", once.AtMostOnce())
	announce := func(context.Context, once.Run) error { return fmt.Errorf("no answer") }
	for range 2 {
		fmt.Println(jobs.Do(context.Background(), "announce", once.Named("v1.2.0"), announce))
	}
	// Output:
	// ran once /releases/announce: do v1.2.0: no answer
	// begun <nil>
}

func ExampleWithCatchUp() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	jobs := once.New(client, "/cron", once.WithCatchUp(24))
	for _, hour := range []int{9, 12} { // no process ran at 10 and 11
		now := time.Date(2026, 11, 23, hour, 0, 7, 0, time.UTC)
		_, _ = jobs.Do(context.Background(), "report", once.At(now, time.Hour),
			func(_ context.Context, run once.Run) error {
				fmt.Println(run.Slot.Time().Hour())
				return nil
			})
	}
	// Output:
	// 9
	// 10
	// 11
	// 12
}
