package curatorkubernetes_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	curatorkubernetes "github.com/go-curator/curator/contrib/kubernetes"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A controller that works while it leads.
func Example() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	zk, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer zk.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := zk.WaitConnected(ctx); err != nil {
		log.Fatal(err)
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:          curatorkubernetes.NewLock(zk, "/controllers/billing", "host-1"),
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				fmt.Println("leads")
				stop()
			},
			OnStoppedLeading: func() { fmt.Println("leads no longer") },
		},
	})
	// Output:
	// leads
	// leads no longer
}
