package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
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
	rw := rwlock.New(client, "/locks/stock")

	first, err := rw.ReadLock().Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := rw.ReadLock().Acquire(ctx) // at the same time as the first
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = rw.WriteLock().TryAcquire(ctx)
	fmt.Println("write while others read:", errors.Is(err, rwlock.ErrNotAcquired))
	_ = first.Release(ctx)
	_ = second.Release(ctx)

	err = rw.WriteLock().Do(ctx, func(ctx context.Context) error {
		fmt.Println("writing alone")
		return nil
	})
	fmt.Println(err)
	// Output:
	// write while others read: true
	// writing alone
	// <nil>
}

// A writer continues to read after its write, before another writer is granted.
func ExampleSide_Acquire_downgrade() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()
	rw := rwlock.New(client, "/locks/stock")

	writer, err := rw.WriteLock().Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	reader, err := rw.ReadLock().Acquire(writer.Context()) // the context carries the write lock
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = writer.Release(ctx)
	fmt.Println("reading:", reader.Valid(), "with the writer's token:",
		reader.FencingToken() == writer.FencingToken())

	_, err = rw.WriteLock().Acquire(reader.Context())
	fmt.Println("and back:", errors.Is(err, rwlock.ErrUpgrade))
	_ = reader.Release(ctx)
	// Output:
	// reading: true with the writer's token: true
	// and back: true
}

// All goroutines of a process that read at the same time share one node.
func ExampleNewReaders() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	// A writer waits at most 50 ms longer than if no reader had joined.
	stock := rwlock.NewReaders(client, "/locks/stock", rwlock.WithJoins(100, 50*time.Millisecond))

	var all sync.WaitGroup
	var together sync.WaitGroup
	together.Add(50)
	for range 50 {
		all.Go(func() {
			err := stock.Do(ctx, func(context.Context) error { // its context ends if the lock is lost
				together.Done()
				together.Wait() // all 50 read at the same time
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()

	reading, err := stock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reading.ReleaseInBackground()
	_, err = rwlock.New(client, stock.Path()).WriteLock().TryAcquire(ctx)
	fmt.Println("write while one reads:", errors.Is(err, rwlock.ErrNotAcquired))
	// Output:
	// write while one reads: true
}

func ExampleRWLock_Participants() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()
	rw := rwlock.New(client, "/locks/stock", rwlock.WithNodeData([]byte("host-1")))

	for range 2 {
		lock, err := rw.ReadLock().Acquire(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer lock.ReleaseInBackground()
	}
	holders, err := rw.Holders(ctx)
	for _, p := range holders {
		fmt.Printf("%s by %s\n", p.Kind, p.Data)
	}
	writers, _ := rw.WriteLock().Participants(ctx)
	fmt.Println("writers:", len(writers), err)
	// Output:
	// read by host-1
	// read by host-1
	// writers: 0 <nil>
}

func ExampleRevoke() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	rw := rwlock.New(client, "/locks/report", rwlock.WithRevocation())
	reader, err := rw.ReadLock().Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	// A writer that needs the lock sooner than the readers end.
	holders, _ := rw.Holders(ctx)
	for _, holder := range holders {
		if err := rwlock.Revoke(ctx, client, holder.Path); err != nil {
			fmt.Println(err)
			return
		}
	}

	select {
	case <-reader.Revoked():
		fmt.Println("asked to go")
	case <-reader.Context().Done():
		fmt.Println("lost")
	}
	fmt.Println("released:", reader.Release(ctx))
	// Output:
	// asked to go
	// released: <nil>
}
