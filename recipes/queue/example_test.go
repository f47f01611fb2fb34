package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/queue"
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
	ctx, cancel := context.WithCancel(context.Background())

	q := queue.New(client, "/queues/mail", queue.WithLockPath("/queues/mail-locks")) // at least once
	for _, item := range []string{"to Ada", "to Bob", "end"} {
		if err := q.Put(ctx, []byte(item)); err != nil {
			fmt.Println(err)
		}
	}
	err := q.Consume(ctx, func(ctx context.Context, item []byte) error {
		fmt.Printf("sent: %s\n", item)
		if string(item) == "end" {
			cancel()
		}
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// sent: to Ada
	// sent: to Bob
	// sent: end
	// true
}

func ExampleWithOrder() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())

	later := queue.New(client, "/queues/later", queue.WithOrder(queue.ByDelay))
	now := time.Now()
	_ = later.Put(ctx, []byte("in a while"), queue.Due(now.Add(50*time.Millisecond)))
	_ = later.Put(ctx, []byte("soon"), queue.Due(now.Add(20*time.Millisecond)))
	_ = later.Consume(ctx, func(_ context.Context, item []byte) error {
		fmt.Printf("%s\n", item)
		if string(item) == "in a while" {
			cancel()
		}
		return nil
	})
	// Output:
	// soon
	// in a while
}

func ExampleOnFailure() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())

	q := queue.New(client, "/queues/mail", queue.WithLockPath("/queues/mail-locks"),
		queue.OnFailure(func(err *queue.ItemError) queue.Fate {
			fmt.Println(err)
			return queue.Delete // after the first failure; Requeue tries again
		}))
	_ = q.Put(ctx, []byte("to nobody"))
	_ = q.Put(ctx, []byte("to Ada"))
	_ = q.Consume(ctx, func(_ context.Context, item []byte) error {
		if string(item) == "to nobody" {
			return errors.New("no such address")
		}
		fmt.Printf("sent: %s\n", item)
		cancel()
		return nil
	})
	// Output:
	// item /queues/mail/queue-0000000000: no such address
	// sent: to Ada
}

func ExampleQueue_Remove() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	q := queue.New(client, "/queues/orders", queue.WithOrder(queue.ByID))
	_ = q.Put(ctx, []byte("two of these"), queue.ID("order 7"))
	fmt.Println(q.Remove(ctx, "order 7"))
	fmt.Println(q.Remove(ctx, "order 7"))
	// Output:
	// 1 <nil>
	// 0 <nil>
}

func ExampleSimple() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	q := queue.NewSimple(client, "/queues/simple")
	_ = q.Offer(ctx, []byte("first"))
	_ = q.Offer(ctx, []byte("second"))
	for range 2 {
		item, err := q.Take(ctx)
		fmt.Println(string(item), err)
	}
	_, err := q.Poll(ctx)
	fmt.Println(errors.Is(err, queue.ErrEmpty))
	// Output:
	// first <nil>
	// second <nil>
	// true
}
