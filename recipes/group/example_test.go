package group_test

import (
	"context"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/group"
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

	for _, id := range []string{"host-1", "host-2"} { // in production each in its own process
		me, err := group.Join(client, "/members", id, []byte("the address of "+id))
		if err != nil {
			panic(err)
		}
		defer me.Leave(ctx)
		if err := me.Joined(ctx); err != nil {
			panic(err)
		}
	}
	g, err := group.Watch(client, "/members")
	if err != nil {
		panic(err)
	}
	defer g.Close()
	members, err := g.WaitFor(ctx, 2)
	for _, m := range members {
		fmt.Println(m.ID, string(m.Data))
	}
	fmt.Println(err)
	// Output:
	// host-1 the address of host-1
	// host-2 the address of host-2
	// <nil>
}

func ExampleGroup_Follow() {
	server, client := connect()
	defer server.Close()
	defer client.Close()
	ctx := context.Background()

	g, err := group.Watch(client, "/members")
	if err != nil {
		panic(err)
	}
	defer g.Close()
	var me *group.Member
	for event, err := range g.Follow(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Println(event)
		switch event.Type {
		case group.Current:
			if me, err = group.Join(client, "/members", "host-7", nil); err != nil {
				panic(err)
			}
		case group.Joined:
			go me.Leave(ctx)
		case group.Left:
			_ = me.Leave(ctx) // waits until the servers have deleted the node
			return
		}
	}
	// Output:
	// current
	// host-7 joined
	// host-7 left
}
