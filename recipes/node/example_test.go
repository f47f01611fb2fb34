package node_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/node"
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

	me, err := node.NewKeeper(client, "/services/web/host-7", []byte("10.0.0.7:80"))
	if err != nil {
		panic(err)
	}
	fmt.Println(me.WaitCreated(ctx), me.Status())
	fmt.Println(me.SetData(ctx, []byte("10.0.0.7:8080")))
	fmt.Println(me.Close(ctx), server.Exists("/services/web/host-7"))
	// Output:
	// <nil> there
	// <nil>
	// <nil> false
}

// An administrator deletes the node: the keeper creates it again, and Follow yields both changes.
func ExampleKeeper_Follow() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	me, err := node.NewKeeper(client, "/services/web/host-7", nil)
	if err != nil {
		panic(err)
	}
	defer me.Close(context.Background())
	var made int64
	for status, err := range me.Follow(ctx) {
		if err != nil || status.State != node.There {
			continue
		}
		if made > 0 {
			fmt.Println("made anew:", status.Czxid > made)
			break
		}
		made = status.Czxid
		fmt.Println("deleted:", server.Delete(status.Path))
	}
	// Output:
	// deleted: <nil>
	// made anew: true
}

// A restarted process replaces the node of its predecessor, whose session lives for a while.
func ExampleWithTakeover() {
	server, before := connect()
	defer server.Close()
	defer before.Close()
	after := must(framework.New(server.Addr(), framework.WithDialer(server.Dial)))
	defer after.Close()
	ctx := context.Background()

	old := must(node.NewKeeper(before, "/services/web/host-7", []byte("before")))
	fmt.Println(old.WaitCreated(ctx))
	me := must(node.NewKeeper(after, "/services/web/host-7", []byte("after"), node.WithTakeover(node.AtStart)))
	fmt.Println(me.WaitCreated(ctx))
	data, _, err := server.Get("/services/web/host-7")
	fmt.Println(string(data), err)
	// Output:
	// <nil>
	// <nil>
	// after <nil>
}

func ExampleTryClaim() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	claim, err := node.TryClaim(ctx, client, "/shards/7", []byte("host-7"))
	if errors.Is(err, node.ErrNotAcquired) {
		return // another process has the shard
	}
	if err != nil {
		panic(err)
	}
	fmt.Println(claim.Valid())
	_, err = node.TryClaim(ctx, client, "/shards/7", nil)
	fmt.Println(errors.Is(err, node.ErrNotAcquired))
	fmt.Println(claim.Release(ctx))
	// Output:
	// true
	// true
	// <nil>
}

func ExampleHolder() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	must(node.TryClaim(ctx, client, "/shards/7", []byte("host-7")))
	if _, err := node.TryClaim(ctx, client, "/shards/7", nil); errors.Is(err, node.ErrNotAcquired) {
		holder, held, err := node.Holder(ctx, client, "/shards/7")
		fmt.Println(held, string(holder.Data), err)
	}
	// Output:
	// true host-7 <nil>
}

// A waiter gets the name when its holder releases it.
func ExampleAwaitClaim() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	other := must(framework.New(server.Addr(), framework.WithDialer(server.Dial)))
	defer other.Close()
	ctx := context.Background()

	first := must(node.TryClaim(ctx, client, "/shards/7", []byte("host-7")))
	waiting := make(chan *node.Claim)
	go func() { waiting <- must(node.AwaitClaim(ctx, other, "/shards/7", []byte("host-8"))) }()
	first.ReleaseInBackground()
	second := <-waiting
	fmt.Println(first.Valid(), second.Valid(), second.FencingToken() > first.FencingToken())
	fmt.Println(second.Release(ctx))
	// Output:
	// false true true
	// <nil>
}

// A registry with Keep and Remove by path.
func ExampleSet() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	registry := node.NewSet(client)
	fmt.Println(registry.Keep(ctx, "/services/web/host-7", []byte("10.0.0.7:80")))
	fmt.Println(registry.Keep(ctx, "/services/db/host-7", []byte("10.0.0.7:5432")))
	fmt.Println(registry.Keep(ctx, "/services/web/host-7", []byte("10.0.0.7:8080"))) // changes its data
	fmt.Println(registry.Remove(ctx, "/services/db/host-7"), registry.Paths())
	fmt.Println(registry.Close(ctx), server.Exists("/services/web/host-7"))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil> [/services/web/host-7]
	// <nil> false
}

// A shutdown that does not wait for the servers.
func ExampleKeeper_CloseInBackground() {
	server, client := connect()
	defer server.Close()
	me := must(node.NewKeeper(client, "/services/web/host-7", nil))
	fmt.Println(me.WaitCreated(context.Background()))
	closed := make(chan error, 1)
	me.CloseInBackground(func(err error) { closed <- err })
	fmt.Println(<-closed, server.Exists("/services/web/host-7"))
	fmt.Println(client.Close())
	// Output:
	// <nil>
	// <nil> false
	// <nil>
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
