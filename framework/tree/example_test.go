package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/zktest"
)

// start returns a client of a fresh server in this process. With a real one it is
// framework.New("zk1:2181,zk2:2181,zk3:2181").
func start() (client *framework.Client, stop func()) {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err = framework.New(server.Addr(), framework.WithDialer(server.Dial),
		framework.WithSessionTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		server.Close()
	}
}

func ExampleWalk() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	for _, path := range []string{"/config/db/host", "/config/db/port", "/config/name"} {
		if _, err := client.Create().CreatingParentsIfNeeded().ForPath(ctx, path,
			[]byte("value of "+path)); err != nil {
			log.Fatal(err)
		}
	}

	for node, err := range tree.Walk(client).ForPath(ctx, "/config") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %q\n", node.Path, node.Data)
	}
	// Output:
	// /config ""
	// /config/db ""
	// /config/name "value of /config/name"
	// /config/db/host "value of /config/db/host"
	// /config/db/port "value of /config/db/port"
}

// The last member of a group takes the group's empty directories with it.
func ExamplePrune() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	for _, path := range []string{"/services/web/host-1", "/services/db/host-2"} {
		if _, err := client.Create().CreatingParentsIfNeeded().ForPath(ctx, path, nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := tree.Prune(ctx, client, "/services/web/host-1", "/"); err != nil {
		log.Fatal(err)
	}
	names, err := client.GetChildren().ForPath(ctx, "/services")
	fmt.Println(names, err)
	// Output:
	// [db] <nil>
}

func ExampleDump() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	if _, err := client.Create().CreatingParentsIfNeeded().ForPath(ctx, "/config/a", []byte("1")); err != nil {
		log.Fatal(err)
	}

	var file bytes.Buffer
	done, err := tree.Dump(client).ForPath(ctx, "/config", &file)
	fmt.Println(done.Nodes, "nodes", err)
	header, _, _ := strings.Cut(file.String(), "\n")
	fmt.Println(header)

	done, err = tree.Restore(client).WithProgress(func(p tree.Progress) {
		fmt.Println("so far:", p.Nodes)
	}).ForPath(ctx, "/backup/config", &file)
	fmt.Println(done.Nodes, "nodes", err)
	data, err := client.GetData().ForPath(ctx, "/backup/config/a")
	fmt.Println(string(data), err)
	// Output:
	// 2 nodes <nil>
	// {"header":{"version":1,"root":"/config","acl":true}}
	// so far: 2
	// 2 nodes <nil>
	// 1 <nil>
}

func ExampleRestore() {
	client, stop := start()
	defer stop()
	_, err := tree.Restore(client).ForPath(context.Background(), "/config",
		strings.NewReader(`{"header":{"version":1,"root":"/","acl":true}}`))
	fmt.Println(err)
	fmt.Println(errors.Is(err, tree.ErrInvalidDump))
	// Output:
	// restore /config: invalid dump: line 2: the input ends before the dump is complete
	// true
}

func ExampleDelete() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	if err := client.Ensure(ctx, "/jobs/2024/12/31"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tree.Delete(ctx, client, "/jobs"))
	fmt.Println(tree.Delete(ctx, client, "/jobs"), "when it is gone already")
	// Output:
	// <nil>
	// <nil> when it is gone already
}
