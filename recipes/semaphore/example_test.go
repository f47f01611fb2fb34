package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/semaphore"
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

	s := semaphore.New(client, "/limits/exports", 5)

	// The deadline limits the wait; the leases do not end with it.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	lease, err := s.Acquire(ctx, 2) // two of the five, or none
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.ReleaseInBackground()

	// Work under the lease's context: it ends if a lease is lost.
	fmt.Println("leases:", lease.Count(), "held:", lease.Valid(), "lost:", lease.Context().Err() != nil)
	// Output:
	// leases: 2 held: true lost: false
}

func ExampleSemaphore_TryAcquire() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	s := semaphore.New(client, "/limits/exports", 2, semaphore.WithLeaseData([]byte("host-1")))
	lease, err := s.TryAcquire(context.Background(), 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.TryAcquire(context.Background(), 1)
	fmt.Println("one more:", errors.Is(err, semaphore.ErrNotAcquired))
	holders, _ := s.Participants(context.Background())
	for _, holder := range holders {
		fmt.Printf("taken by %s\n", holder.Data)
	}
	fmt.Println("released:", lease.Release(context.Background()))
	fmt.Println("again:", errors.Is(lease.Release(context.Background()), semaphore.ErrReleased))
	// Output:
	// one more: true
	// taken by host-1
	// taken by host-1
	// released: <nil>
	// again: true
}

func ExampleSemaphore_Do() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	s := semaphore.New(client, "/limits/exports", 5)
	err := s.Do(context.Background(), 1, func(ctx context.Context) error {
		taken, max, err := s.Usage(ctx)
		fmt.Println(taken, "of", max, "and mine is valid:", semaphore.LeaseOf(ctx).Valid())
		return err
	})
	fmt.Println(err)
	// Output:
	// 1 of 5 and mine is valid: true
	// <nil>
}

func ExampleWithSharedCount() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	// The number of leases is 1 until it is set.
	s := semaphore.New(client, "/limits/exports", 1, semaphore.WithSharedCount("/limits/exports-max"))
	first, err := s.Acquire(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.ReleaseInBackground()

	// An operator sets it to 3, while a caller waits for two more leases.
	time.AfterFunc(10*time.Millisecond,
		func() { _ = semaphore.NewCount(client, "/limits/exports-max").Set(ctx, 3) })
	more, err := s.Acquire(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer more.ReleaseInBackground()
	taken, max, err := s.Usage(ctx)
	fmt.Println(taken, "of", max, err)
	// Output:
	// 3 of 3 <nil>
}

func ExampleNewMutex() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	m := semaphore.NewMutex(client, "/locks/migrations") // like Curator's InterProcessSemaphoreMutex
	lock, err := m.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = m.TryAcquire(lock.Context())
	fmt.Println("not re-entrant:", errors.Is(err, semaphore.ErrNotAcquired))
	done := make(chan error)
	go func() { done <- lock.Release(context.Background()) }() // any goroutine may release it
	fmt.Println(<-done)
	// Output:
	// not re-entrant: true
	// <nil>
}
