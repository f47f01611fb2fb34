package discovery_test

import (
	"context"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/zktest"
)

func Example() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial)) // framework.New("zk1:2181,zk2:2181")
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx := context.Background()

	type info struct{ Version string }
	services, err := discovery.New[info](client, "/services")
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"host-1", "host-2"} { // in production each in its own process
		me, err := services.Register(ctx, discovery.Instance[info]{
			Name: "web", ID: id, Address: id + ".example", Port: 80, Payload: info{"1.0"},
			URISpec: "{scheme}://{address}:{port}/",
		})
		if err != nil {
			panic(err)
		}
		defer me.Unregister(ctx)
	}

	web, err := services.Cache("web")
	if err != nil {
		panic(err)
	}
	defer web.Close()
	if err := web.WaitSynced(ctx); err != nil {
		panic(err)
	}
	provider, err := discovery.NewProvider(web)
	if err != nil {
		panic(err)
	}
	for range 2 { // one after the other, starting with any
		instance, err := provider.Instance()
		fmt.Println(instance.URI(nil), instance.Payload.Version, err)
	}
	// Unordered output:
	// http://host-1.example:80/ 1.0 <nil>
	// http://host-2.example:80/ 1.0 <nil>
}
