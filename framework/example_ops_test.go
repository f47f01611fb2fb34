package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-curator/curator/framework"
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

func ExampleClient_Create() {
	client, stop := start()
	defer stop()
	ctx := context.Background()

	path, err := client.Create().CreatingParentsIfNeeded().ForPath(ctx, "/config/app", []byte("v1"))
	fmt.Println(path, err)

	var stat framework.Stat
	path, err = client.Create().WithMode(framework.EphemeralSequential).StoringStatIn(&stat).ForPath(ctx,
		"/config/worker-", nil)
	fmt.Println(path, stat.EphemeralOwner != 0, err)

	_, err = client.Create().ForPath(ctx, "/config/app", nil)
	fmt.Println(err, errors.Is(err, framework.ErrNodeExists))
	// Output:
	// /config/app <nil>
	// /config/worker-0000000001 true <nil>
	// create /config/app: node already exists true
}

func ExampleClient_SetData() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	if _, err := client.Create().ForPath(ctx, "/counter", []byte("1")); err != nil {
		log.Fatal(err)
	}

	var stat framework.Stat
	data, err := client.GetData().StoringStatIn(&stat).ForPath(ctx, "/counter")
	fmt.Println(string(data), stat.Version, err)

	// Succeeds only if no client has changed the node since.
	stat, err = client.SetData().WithVersion(stat.Version).ForPath(ctx, "/counter", []byte("2"))
	fmt.Println(stat.Version, err)
	_, err = client.SetData().WithVersion(0).ForPath(ctx, "/counter", []byte("3"))
	fmt.Println(err)
	// Output:
	// 1 0 <nil>
	// 1 <nil>
	// setData /counter: version conflict
}

func ExampleClient_GetData_watch() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	if _, err := client.Create().ForPath(ctx, "/config", []byte("v1")); err != nil {
		log.Fatal(err)
	}

	data, watch, err := client.GetData().WithWatch().ForPath(ctx, "/config")
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Stop()
	fmt.Println(string(data))

	_, _ = client.SetData().ForPath(ctx, "/config", []byte("v2"))
	event := <-watch.C // reports that the node has changed, without its new data
	fmt.Println(event.Type, event.Path)
	// Output:
	// v1
	// NodeDataChanged /config
}

func ExampleClient_Watches() {
	client, stop := start()
	defer stop()
	ctx := context.Background()

	watch, err := client.Watches().Add().WithMode(framework.PersistentRecursiveWatch).ForPath(ctx, "/services")
	if err != nil {
		log.Fatal(err)
	}
	_, _ = client.Create().CreatingParentsIfNeeded().ForPath(ctx, "/services/web/1", nil)
	_ = client.Delete().ForPath(ctx, "/services/web/1")
	for range 4 {
		event := <-watch.C
		fmt.Println(event.Type, event.Path)
	}
	watch.Stop()
	// Output:
	// NodeCreated /services
	// NodeCreated /services/web
	// NodeCreated /services/web/1
	// NodeDeleted /services/web/1
}

func ExampleClient_Transaction() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	if _, err := client.Create().ForPath(ctx, "/inbox", nil); err != nil {
		log.Fatal(err)
	}

	op := client.TransactionOp()
	results, err := client.Transaction(ctx,
		op.Create().ForPath("/outbox", []byte("letter")),
		op.Delete().WithVersion(0).ForPath("/inbox"),
	)
	fmt.Println(len(results), results[0].Path, err)

	_, err = client.Transaction(ctx, op.Check().ForPath("/outbox"), op.SetData().ForPath("/inbox", nil))
	fmt.Println(err, errors.Is(err, framework.ErrNoNode))
	// Output:
	// 2 /outbox <nil>
	// transaction /inbox: operation 1 (setData): node does not exist true
}

// Two nodes are written together, whether they exist or not.
func ExampleTransactionCreate_OrSetData() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	op := client.TransactionOp()
	for _, version := range []string{"1", "2"} {
		results, err := client.Transaction(ctx,
			op.Create().OrSetData().ForPath("/limits", []byte(version)),
			op.Create().OrSetData().ForPath("/features", []byte(version)),
		)
		fmt.Println(results[0].Op, results[1].Op, err)
	}
	// Output:
	// create create <nil>
	// setData setData <nil>
}

func ExamplePending() {
	client, stop := start()
	defer stop()
	ctx := context.Background()

	// Three requests in one flight, executed in this order.
	client.Create().InBackground().ForPath(ctx, "/a", nil)
	client.Create().InBackground().ForPath(ctx, "/a/b", nil)
	children := client.GetChildren().InBackground().ForPath(ctx, "/a")

	r, err := children.Wait(ctx)
	fmt.Println(r.Names, err)
	// Output:
	// [b] <nil>
}

func ExampleClient_UsingNamespace() {
	client, stop := start()
	defer stop()
	ctx := context.Background()

	team := client.UsingNamespace("team")
	path, err := team.Create().ForPath(ctx, "/a", nil)
	fmt.Println(path, err)
	names, err := client.GetChildren().ForPath(ctx, "/team")
	fmt.Println(names, err)
	// Output:
	// /a <nil>
	// [a] <nil>
}

func ExampleDeleteBuilder_Guaranteed() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	if _, err := client.Create().WithMode(framework.Ephemeral).ForPath(ctx, "/busy", nil); err != nil {
		log.Fatal(err)
	}

	// The caller's context has ended. The node is deleted all the same.
	late, cancel := context.WithCancel(ctx)
	cancel()
	err := client.Delete().Guaranteed().ForPath(late, "/busy")
	fmt.Println(errors.Is(err, context.Canceled))

	stat, watch, err := client.CheckExists().WithWatch().ForPath(ctx, "/busy")
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Stop()
	if stat != nil {
		<-watch.C
	}
	stat, err = client.CheckExists().ForPath(ctx, "/busy")
	fmt.Println(stat == nil, err)
	// Output:
	// true
	// true <nil>
}
