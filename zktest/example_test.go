package zktest_test

import (
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/zktest"
)

// A plain go-zookeeper client over TCP.
func Example() {
	server, err := zktest.NewServer(zktest.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	client, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	path, err := client.Create("/config", []byte("v1"), 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		log.Fatal(err)
	}
	_, _, changed, err := client.GetW(path)
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Set("/config", []byte("v2")); err != nil { // another client changes it
		log.Fatal(err)
	}
	fmt.Println((<-changed).Type, path)
	fmt.Println(server.Counts()["create"], "create,", server.Counts()["getData"], "getData")
	// Output:
	// EventNodeDataChanged /config
	// 1 create, 1 getData
}

// A member of an ensemble lags behind, so that its reads are stale until a sync.
func ExampleEnsemble() {
	ensemble, err := zktest.NewEnsemble(3, zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	ensemble.SetLag(0, 100*time.Millisecond)

	client, _, err := zk.Connect(ensemble.Addrs()[:1], 10*time.Second,
		zk.WithDialer(ensemble.Dialer()), zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, _, err := client.Get("/"); err != nil { // now it is connected
		log.Fatal(err)
	}

	if err := ensemble.Member(ensemble.Leader()).Create("/config", []byte("v1")); err != nil {
		log.Fatal(err)
	}
	there, _, err := client.Exists("/config")
	fmt.Println("at once:", there, err)
	if _, err := client.Sync("/"); err != nil {
		log.Fatal(err)
	}
	there, _, err = client.Exists("/config")
	fmt.Println("after sync:", there, err)
	// Output:
	// at once: false <nil>
	// after sync: true <nil>
}
