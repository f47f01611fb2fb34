package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
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

	m := mutex.New(client, "/locks/orders")

	// The deadline limits the wait; the lock does not end with it.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	lock, err := m.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.ReleaseInBackground()

	// Work under the lock's context: it ends if the lock is lost.
	fmt.Println("held:", lock.Valid(), "lost:", lock.Context().Err() != nil)
	// Output:
	// held: true lost: false
}

// The work ends before another client can acquire the lock.
func ExampleLock_Context() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	lock, err := mutex.New(client, "/locks/orders").Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.ReleaseInBackground()
	session, err := client.Session(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Expire(session.ID()) // as after a long outage

	select {
	case <-lock.Context().Done():
		fmt.Println("lost:", errors.Is(context.Cause(lock.Context()), framework.ErrSessionLost))
	case <-time.After(time.Minute): // the work
		fmt.Println("done")
	}
	fmt.Println("held:", lock.Valid())
	// Output:
	// lost: true
	// held: false
}

func ExampleMutex_Do() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	m := mutex.New(client, "/locks/orders")
	err := m.Do(context.Background(), func(ctx context.Context) error {
		// Code that is called from here may acquire the lock again, with ctx.
		return m.Do(ctx, func(context.Context) error {
			fmt.Println("one hold, taken twice")
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// one hold, taken twice
	// <nil>
}

// A caller with the context of a hold acquires the same lock again immediately.
func ExampleMutex_Acquire_reentry() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	m := mutex.New(client, "/locks/orders")
	outer, err := m.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	inner, err := m.Acquire(outer.Context())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one node:", inner.Path() == outer.Path())
	_, err = m.TryAcquire(ctx) // re-entry depends on the context, not on the goroutine
	fmt.Println("another context:", errors.Is(err, mutex.ErrNotAcquired))

	fmt.Println("released:", inner.Release(ctx), "still held:", outer.Valid())
	fmt.Println("released:", outer.Release(ctx), "still held:", outer.Valid())
	// Output:
	// one node: true
	// another context: true
	// released: <nil> still held: true
	// released: <nil> still held: false
}

// ReleaseInBackground suits defer: it does not block, and the client retries until the node is deleted.
func ExampleLock_ReleaseInBackground() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	m := mutex.New(client, "/locks/orders")
	lock, err := m.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	released := make(chan error, 1)
	lock.ReleaseInBackground(func(err error) { released <- err }) // the function is optional
	fmt.Println("held:", lock.Valid())

	again, err := m.TryAcquire(ctx) // its requests are sent after the delete
	if err != nil {
		fmt.Println(err)
		return
	}
	defer again.ReleaseInBackground()
	fmt.Println("held again:", again.Valid(), "released:", <-released)
	// Output:
	// held: false
	// held again: true released: <nil>
}

// A store that remembers the largest token and refuses smaller ones is safe from a holder that has lost its lock unawares.
func ExampleLockOf() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	m := mutex.New(client, "/locks/orders")
	save := func(ctx context.Context, token int64) error {
		fmt.Println("update orders set …, token = ? where token <= ?:", token > 0)
		return nil
	}
	err := m.Do(context.Background(), func(ctx context.Context) error {
		return save(ctx, mutex.LockOf(ctx).FencingToken())
	})
	fmt.Println(err)
	// Output:
	// update orders set …, token = ? where token <= ?: true
	// <nil>
}

// One of 256 locks for each of very many orders.
func ExampleStriped() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	orders := mutex.NewStriped(client, "/locks/orders", 256)
	err := orders.Of("order-4711").Do(context.Background(), func(context.Context) error {
		fmt.Println("no two at order 4711")
		return nil
	})
	fmt.Println(err)
	err = orders.OfAll("order-4711", "order-17").Do(context.Background(), func(context.Context) error {
		fmt.Println("nor at both")
		return nil
	})
	fmt.Println(err)
	// Output:
	// no two at order 4711
	// <nil>
	// nor at both
	// <nil>
}

func ExampleMutex_TryAcquire() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	m := mutex.New(client, "/locks/nightly", mutex.WithNodeData([]byte("host-1")))
	lock, err := m.TryAcquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = m.TryAcquire(context.Background()) // not with lock.Context(): that would re-enter
	fmt.Println("the second one:", errors.Is(err, mutex.ErrNotAcquired))

	holder, _, _ := m.Holder(context.Background())
	fmt.Printf("held by %s\n", holder.Data)
	fmt.Println("released:", lock.Release(context.Background()))
	fmt.Println("again:", errors.Is(lock.Release(context.Background()), mutex.ErrReleased))
	// Output:
	// the second one: true
	// held by host-1
	// released: <nil>
	// again: true
}

func ExampleLock_Guard() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()
	if _, err := client.Create().ForPath(ctx, "/balance", []byte("100")); err != nil {
		fmt.Println(err)
		return
	}

	lock, err := mutex.New(client, "/locks/balance").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The server executes the transaction only while the lock is held, whatever the client's clock shows.
	_, err = client.Transaction(ctx, lock.Guard(),
		client.TransactionOp().SetData().ForPath("/balance", []byte("90")))
	fmt.Println("with the lock:", err)
	_ = lock.Release(ctx)
	_, err = client.Transaction(ctx, lock.Guard(),
		client.TransactionOp().SetData().ForPath("/balance", []byte("80")))
	fmt.Println("without:", errors.Is(err, framework.ErrNoNode))
	// Output:
	// with the lock: <nil>
	// without: true
}

func ExampleRevoke() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	m := mutex.New(client, "/locks/batch", mutex.WithRevocation())
	lock, err := m.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Another client that needs the lock sooner.
	holder, _, _ := m.Holder(ctx)
	if err := mutex.Revoke(ctx, client, holder.Path); err != nil {
		fmt.Println(err)
		return
	}

	select {
	case <-lock.Revoked():
		fmt.Println("asked to go")
	case <-lock.Context().Done():
		fmt.Println("lost")
	}
	fmt.Println("released:", lock.Release(ctx))
	// Output:
	// asked to go
	// released: <nil>
}

func ExampleMulti() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	from, to := mutex.New(client, "/locks/account-1"), mutex.New(client, "/locks/account-2")
	both := mutex.NewMulti(mutex.Of(from), mutex.Of(to)) // all callers use the same order

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // for both together
	defer cancel()
	lock, err := both.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = to.TryAcquire(ctx)
	fmt.Println("somebody else:", errors.Is(err, mutex.ErrNotAcquired))
	fmt.Println("held:", lock.Valid())
	fmt.Println("released:", lock.Release(ctx))
	// Output:
	// somebody else: true
	// held: true
	// released: <nil>
}

func ExampleNewCohort() {
	server, client := connect()
	defer server.Close()
	defer client.Close()

	// All goroutines of the process share it. Other processes wait for at most 100 turns, or 50 ms.
	orders := mutex.NewCohort(client, "/locks/orders", mutex.WithTurns(100, 50*time.Millisecond))

	var all sync.WaitGroup
	done := 0
	for range 50 {
		all.Go(func() {
			err := orders.Do(context.Background(), func(context.Context) error {
				done++ // only one goroutine at a time holds a turn
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println(done)
	// Output:
	// 50
}

func ExampleWithKept() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	orders := mutex.NewCohort(client, "/locks/orders", mutex.WithKept(time.Minute))
	for range 3 {
		turn, err := orders.Acquire(ctx) // only the first turn sends requests
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("held:", turn.Valid())
		turn.ReleaseInBackground()
	}
	_, kept, err := orders.Holder(ctx)
	fmt.Println("kept:", kept, err)

	// Another contender acquires the lock all the same.
	lock, err := mutex.New(client, "/locks/orders").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.ReleaseInBackground()
	fmt.Println("given up:", lock.Valid())
	// Output:
	// held: true
	// held: true
	// held: true
	// kept: true <nil>
	// given up: true
}
