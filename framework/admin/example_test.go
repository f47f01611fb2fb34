package admin_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/admin"
	"github.com/go-curator/curator/zktest"
)

func ExampleReconfig() {
	server, err := zktest.NewServer(zktest.Config{EnsembleConfig: "server.1=zk1:2888:3888:participant;2181\n" +
		"server.2=zk2:2888:3888:observer;0.0.0.0:2181\nversion=100000000"})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	config, err := client.GetConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range config.Members {
		fmt.Println(m.ID, m.ClientAddress, m.Observer)
	}
	_, err = admin.Reconfig(client).Leaving("2").FromConfig(config.Version).ForEnsemble(context.Background())
	fmt.Println(err) // as on every server that does not set reconfigEnabled=true
	// Output:
	// 1 zk1:2181 false
	// 2 zk2:2181 true
	// reconfig: reconfiguration is disabled
}

// A member is taken out of the ensemble and put back, and a client that tracks the ensemble follows.
func ExampleReconfigBuilder_FromConfig() {
	ensemble, err := zktest.NewEnsemble(3, zktest.Config{Reconfig: true, // reconfigEnabled=true
		SuperDigest: framework.DigestACL(framework.PermAll, "super", "secret").ID})
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	client, err := framework.New(ensemble.ConnectString(), framework.WithDialer(ensemble.Dial),
		framework.WithAuth("digest", []byte("super:secret")), framework.WithEnsembleTracking())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	// follow shows a configuration, and waits until the client is connected to one of its members.
	follow := func(config framework.EnsembleConfig) {
		for _, m := range config.Members {
			fmt.Print(m.ID, " ")
		}
		members := config.ClientAddresses()
		for len(client.Servers()) != len(members) || !slices.Contains(members, client.Health().Server) {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("and the client follows")
	}
	config, err := client.GetConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	follow(config)

	less, err := admin.Reconfig(client).Leaving("1").FromConfig(config.Version).ForEnsemble(ctx)
	if err != nil {
		log.Fatal(err)
	}
	follow(less)
	_, err = admin.Reconfig(client).Leaving("2").FromConfig(config.Version).ForEnsemble(ctx)
	fmt.Println(err) // the configuration has changed since

	again, err := admin.Reconfig(client).Joining("server.1=" + config.Members[0].Spec).ForEnsemble(ctx)
	if err != nil {
		log.Fatal(err)
	}
	follow(again)
	// Output:
	// 1 2 3 and the client follows
	// 2 3 and the client follows
	// reconfig: version conflict
	// 1 2 3 and the client follows
}
