package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func ExampleCreateBuilder_Idempotent() {
	client, stop := start()
	defer stop()
	ctx := context.Background()

	// Of all clients that do this one succeeds, even if its connection is lost before the reply.
	for range 2 {
		_, err := client.Create().Idempotent().ForPath(ctx, "/config", []byte("v1"))
		fmt.Println(err)
	}
	for range 2 {
		_, err := client.SetData().Idempotent().WithVersion(0).ForPath(ctx, "/config", []byte("v2"))
		fmt.Println(err)
	}
	for range 2 {
		fmt.Println(client.Delete().Idempotent().ForPath(ctx, "/config"))
	}
	// Output:
	// <nil>
	// create /config: node already exists
	// <nil>
	// setData /config: version conflict
	// <nil>
	// delete /config: node does not exist
}

func ExampleWithCompression() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial), framework.WithCompression())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	text := strings.Repeat("many words that say the same. ", 1000)
	if _, err := client.Create().ForPath(ctx, "/a", []byte(text)); err != nil {
		log.Fatal(err)
	}
	stored, err := client.GetData().Undecompressed().ForPath(ctx, "/a")
	fmt.Println(len(stored) < 500, err)
	data, err := client.GetData().ForPath(ctx, "/a")
	fmt.Println(len(data), err)
	// Output:
	// true <nil>
	// 30000 <nil>
}

func ExampleClient_UsingRetry() {
	client, stop := start()
	defer stop()
	ctx := context.Background()

	once := client.UsingRetry(retry.RetryNTimes{})
	_, err := once.GetData().ForPath(ctx, "/none") // returns the first error, also of a lost connection
	fmt.Println(err)
	// Output:
	// getData /none: node does not exist
}

// Code that was written for go-zookeeper continues to work, in the client's own session.
func ExampleClient_Conn() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	session, err := client.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}

	conn := client.Conn() // a *zk.Conn
	fmt.Println("one session:", conn.SessionID() == session.ID())
	path, err := conn.Create("/old", []byte("v1"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	data, err := client.GetData().ForPath(ctx, "/old")
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// one session: true
	// /old <nil>
	// v1 <nil>
}

func ExampleClient_InSession() {
	client, stop := start()
	defer stop()
	ctx := context.Background()

	// Both nodes in one session, or, if it ends in the middle, all of it again in the next one.
	err := retry.Do(ctx, retry.RetryNTimes{Retries: 3, Sleep: time.Second}, func(ctx context.Context) error {
		return client.InSession(ctx, func(ctx context.Context, s *framework.Session) error {
			for _, path := range []string{"/primary", "/backup"} {
				if _, err := s.Client().Create().WithMode(framework.Ephemeral).ForPath(ctx, path, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}, retry.WithRetryable(func(err error) bool { return errors.Is(err, framework.ErrSessionLost) }))
	fmt.Println(err)
	// Output:
	// <nil>
}

func ExampleClient_SetServers() {
	client, stop := start()
	defer stop()
	if err := client.SetServers("zk1,zk2:2182,zk3"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Servers())
	fmt.Println(client.SetServers("zk1;zk2"))
	// Output:
	// [zk1:2181 zk2:2182 zk3:2181]
	// invalid connect string "zk1;zk2": servers are not separated by commas; write "zk1,zk2"
}

func ExampleClient_MultiRead() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	for _, path := range []string{"/config/host", "/config/port"} {
		if _, err := client.Create().CreatingParentsIfNeeded().ForPath(ctx, path, []byte(path)); err != nil {
			log.Fatal(err)
		}
	}

	// One request for all. Each read succeeds or fails by itself.
	results, err := client.MultiRead().ForReads(ctx, framework.ReadChildren("/config"),
		framework.ReadData("/config/host"), framework.ReadData("/config/none"))
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Printf("%s: %d children, data %q, error: %v\n", r.Path, len(r.Children), r.Data, r.Err)
	}
	// Output:
	// /config: 2 children, data "", error: <nil>
	// /config/host: 0 children, data "/config/host", error: <nil>
	// /config/none: 0 children, data "", error: getData /config/none: node does not exist
}

// Members move, and clients follow. The configuration has the format that a reconfig writes.
func ExampleWithEnsembleTracking() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New("zk1,zk2", framework.WithDialer(server.Dial), // the server has both addresses
		framework.WithEnsembleTracking(), framework.WithEnsembleHosts(func(host string) bool {
			return strings.HasPrefix(host, "zk")
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	config, watch, err := client.WatchConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Stop()
	fmt.Println(client.Servers(), len(config.Members))

	moved := "server.2=zk2:2888:3888;2181\nserver.3=zk3:2888:3888;2181\nversion=200000000"
	if err := server.Set("/zookeeper/config", []byte(moved)); err != nil {
		log.Fatal(err)
	}
	<-watch.C
	for client.Servers()[0] != "zk2:2181" {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(client.Servers())
	// Output:
	// [zk1:2181 zk2:2181] 0
	// [zk2:2181 zk3:2181]
}
