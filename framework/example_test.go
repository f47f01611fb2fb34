package framework_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func ExampleNew() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial),
		framework.WithSessionTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := client.WaitConnected(ctx); err != nil {
		log.Fatal(err) // names the servers that were tried, and what failed
	}
	path, err := client.Create().CreatingParentsIfNeeded().ForPath(ctx, "/services/search",
		[]byte("10.0.0.7:80"))
	if err != nil {
		log.Fatal(err)
	}
	data, err := client.GetData().ForPath(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is %s\n", path, data)
	// Output:
	// /services/search is 10.0.0.7:80
}

func ExampleClient_StateChanges() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the subscription
	for change := range client.StateChanges(ctx) {
		fmt.Println(change)
		switch {
		case change.State == framework.Connected:
			server.Cut(0) // the network fails
		case change.State == framework.Reconnected && change.Epoch == 1:
			session, err := client.Session(ctx)
			if err != nil {
				log.Fatal(err)
			}
			server.Expire(session.ID()) // the server gives the session up
		case change.State == framework.Reconnected:
			return
		}
	}
	// Output:
	// Connected in epoch 1
	// Suspended in epoch 1
	// Reconnected in epoch 1
	// Suspended in epoch 1
	// Lost in epoch 1
	// Reconnected in epoch 2
}

func ExampleSession_Hold() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	session, err := client.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var stat framework.Stat
	path, err := session.Client().Create().WithMode(framework.Ephemeral).StoringStatIn(&stat).ForPath(ctx,
		"/master", nil)
	if err != nil {
		log.Fatal(err) // framework.ErrNodeExists: another process is the master
	}
	hold, err := session.Hold(ctx, framework.HoldOptions{Path: path, Czxid: stat.Czxid,
		Loss: framework.SessionOnly, OwnWatchAfter: time.Nanosecond})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("master:", hold.Valid())
	time.AfterFunc(50*time.Millisecond, func() {
		if err := server.Delete("/master"); err != nil { // an administrator steps in
			log.Print(err)
		}
	})
	<-hold.Context().Done()
	fmt.Println("no longer:", context.Cause(hold.Context()))
	// Output:
	// master: true
	// no longer: node deleted
}
