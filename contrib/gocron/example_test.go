package curatorgocron_test

import (
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	curatorgocron "github.com/go-curator/curator/contrib/gocron"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Two processes have the same job. Each run takes place in one of them.
func Example() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ran := make(chan string, 2)
	for range 2 {
		zk, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
		if err != nil {
			log.Fatal(err)
		}
		defer zk.Close()
		locker := curatorgocron.NewLocker(zk, "/jobs", 10*time.Second)
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			log.Fatal(err)
		}
		defer scheduler.Shutdown()
		_, err = scheduler.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(func() {
			ran <- fmt.Sprint("the report is made; valid lock: ", locker.Held("report").Valid())
		}), gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartImmediately()))
		if err != nil {
			log.Fatal(err)
		}
		scheduler.Start()
	}
	fmt.Println(<-ran)
	// Output:
	// the report is made; valid lock: true
}
