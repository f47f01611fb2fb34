package cache_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// setUp gives a server with some nodes, and a client. The server stands for yours.
func setUp(nodes ...string) (server *zktest.Server, client *framework.Client, end func()) {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for i := 0; i+1 < len(nodes); i += 2 {
		if err := server.Create(nodes[i], []byte(nodes[i+1])); err != nil {
			log.Fatal(err)
		}
	}
	client, err = framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	return server, client, func() {
		client.Close()
		server.Close()
	}
}

func ExampleNew() {
	_, client, end := setUp("/config/db", "10.0.0.7", "/config/log/level", "info")
	defer end()
	ctx := context.Background()

	tree, err := cache.New(client, "/config")
	if err != nil {
		log.Fatal(err)
	}
	defer tree.Close()
	if err := tree.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	for path, node := range tree.All() {
		fmt.Printf("%s %q\n", path, node.Data)
	}
	level, ok := tree.Get("/config/log/level")
	fmt.Println(ok, string(level.Data))
	// Output:
	// /config ""
	// /config/db "10.0.0.7"
	// /config/log ""
	// /config/log/level "info"
	// true info
}

func ExampleCache_Events() {
	server, client, end := setUp("/config/db", "10.0.0.7")
	defer end()
	tree, err := cache.New(client, "/config")
	if err != nil {
		log.Fatal(err)
	}
	defer tree.Close()

	for event, err := range tree.Events(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Type {
		case cache.Created:
			fmt.Printf("%s is %q\n", event.Path, event.New.Data)
		case cache.Changed:
			fmt.Printf("%s was %q and is %q\n", event.Path, event.Old.Data, event.New.Data)
			_ = server.Delete("/config/db")
		case cache.Initialized:
			fmt.Println("that is all for now")
			_ = server.Set("/config/db", []byte("10.0.0.8"))
		case cache.Deleted:
			fmt.Printf("%s is gone\n", event.Path)
			return
		}
	}
	// Output:
	// /config is ""
	// /config/db is "10.0.0.7"
	// that is all for now
	// /config/db was "10.0.0.7" and is "10.0.0.8"
	// /config/db is gone
}

func ExampleNewPathChildren() {
	_, client, end := setUp("/workers/w2", "10.0.0.2", "/workers/w1", "10.0.0.1")
	defer end()
	workers, err := cache.NewPathChildren(client, "/workers")
	if err != nil {
		log.Fatal(err)
	}
	defer workers.Close()
	if err := workers.WaitSynced(context.Background()); err != nil {
		log.Fatal(err)
	}
	for name, node := range workers.All() {
		fmt.Println(name, string(node.Data))
	}
	// Output:
	// w1 10.0.0.1
	// w2 10.0.0.2
}

func ExampleNewNode() {
	_, client, end := setUp("/leader", "w1")
	defer end()
	leader, err := cache.NewNode(client, "/leader")
	if err != nil {
		log.Fatal(err)
	}
	defer leader.Close()
	if err := leader.WaitSynced(context.Background()); err != nil {
		log.Fatal(err)
	}
	node, ok := leader.Get()
	fmt.Println(ok, string(node.Data), node.Stat.Version)
	// Output:
	// true w1 0
}

func ExampleNewTree() {
	_, client, end := setUp("/services/search/a", "", "/services/search/locks/1", "", "/services/mail/b", "")
	defer end()
	tree, err := cache.NewTree(client, "/services",
		cache.WithMaxDepth(2),
		cache.WithFilter(func(path string) bool { return path != "/services/search/locks" }))
	if err != nil {
		log.Fatal(err)
	}
	defer tree.Close()
	if err := tree.WaitSynced(context.Background()); err != nil {
		log.Fatal(err)
	}
	for path := range tree.All() {
		fmt.Println(path)
	}
	// Output:
	// /services
	// /services/mail
	// /services/mail/b
	// /services/search
	// /services/search/a
}

func ExampleNewTyped() {
	type limits struct{ Rate int }
	_, client, end := setUp("/limits/search", `{"Rate": 100}`, "/limits/mail", `oops`)
	defer end()
	all, err := cache.NewPathChildren(client, "/limits")
	if err != nil {
		log.Fatal(err)
	}
	defer all.Close()
	if err := all.WaitSynced(context.Background()); err != nil {
		log.Fatal(err)
	}
	for name, entry := range cache.NewTyped(all, cache.JSON[limits]).All() {
		fmt.Println(name, entry.Value.Rate, entry.Err)
	}
	// Output:
	// mail 0 decode /limits/mail: invalid character 'o' looking for beginning of value
	// search 100 <nil>
}

// The list that a load balancer needs: the whole of it, whenever it has changed.
func ExampleFollow() {
	server, client, end := setUp("/backends/a", "10.0.0.7")
	defer end()
	backends, err := cache.NewPathChildren(client, "/backends")
	if err != nil {
		log.Fatal(err)
	}
	defer backends.Close()

	for nodes, err := range cache.Follow(context.Background(), backends) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(nodes), "backends")
		if len(nodes) == 2 {
			return
		}
		_ = server.Create("/backends/b", []byte("10.0.0.8"))
	}
	// Output:
	// 1 backends
	// 2 backends
}

func ExampleFilter() {
	server, client, end := setUp("/jobs/a", "")
	defer end()
	jobs, err := cache.New(client, "/jobs")
	if err != nil {
		log.Fatal(err)
	}
	defer jobs.Close()
	if err := jobs.WaitSynced(context.Background()); err != nil {
		log.Fatal(err)
	}

	changes := cache.Filter(jobs.Events(context.Background()), cache.OfType(cache.Created, cache.Initialized))
	for event, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event)
		switch event.Path {
		case "":
			_ = server.Delete("/jobs/a")
			_ = server.Create("/jobs/b", nil)
		case "/jobs/b":
			return
		}
	}
	// Output:
	// Created /jobs
	// Created /jobs/a
	// Initialized
	// Created /jobs/b
}

// A service that restarts begins with the snapshot, and gets the changes since.
func ExampleWithSnapshot() {
	server, client, end := setUp("/config/color", "red", "/config/size", "10")
	defer end()
	ctx := context.Background()
	before, err := cache.New(client, "/config")
	if err != nil {
		log.Fatal(err)
	}
	if err := before.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	before.Close()
	var file bytes.Buffer
	if _, err := before.Snapshot().WriteTo(&file); err != nil {
		log.Fatal(err)
	}

	_ = server.Set("/config/color", []byte("blue"))
	_ = server.Delete("/config/size")

	snapshot, err := cache.ReadSnapshot(&file)
	if err != nil {
		log.Print(err) // snapshot is nil, and the cache loads as usual
	}
	server.Pause() // for as long as nothing can be compared
	c, err := cache.New(client, "/config", cache.WithSnapshot(snapshot))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	color, _ := c.Get("/config/color")
	fmt.Printf("%s, in sync: %t\n", color.Data, c.Progress().Synced)
	for event, err := range c.Events(ctx) {
		if err != nil || event.Type == cache.Initialized {
			break
		}
		if event.Path == "/config/size" {
			server.Resume()
		}
		if event.Type != cache.ConnectionChanged {
			fmt.Println(event)
		}
	}
	// Output:
	// red, in sync: false
	// Created /config
	// Created /config/color
	// Created /config/size
	// Deleted /config/size
	// Changed /config/color
}

func ExampleFollowNode() {
	server, client, end := setUp("/limits", "10")
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	limits, changes, err := cache.FollowNode(ctx, client, "/limits")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(limits.Data))
	_ = server.Set("/limits", []byte("20"))
	fmt.Println(string((<-changes).Data))
	_ = server.Delete("/limits")
	fmt.Println(<-changes == nil)
	stop()
	_, open := <-changes
	fmt.Println(open)
	// Output:
	// 10
	// 20
	// true
	// false
}

func ExampleFollowChildren() {
	server, client, end := setUp("/workers/a", "")
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	workers, changes, err := cache.FollowChildren(ctx, client, "/workers")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(workers))
	_ = server.Create("/workers/b", nil)
	fmt.Println(len(<-changes))
	// Output:
	// 1
	// 2
}
