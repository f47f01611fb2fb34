package zktestcluster_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/cluster/clustertest"
	"github.com/go-curator/curator/integration/zktestcluster"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// These servers fulfill the same contract as real servers.
func TestContract(t *testing.T) {
	const tick, syncLimit = 500 * time.Millisecond, 4
	c := zktestcluster.Start(t, 3, zktest.Config{TickTime: tick, SyncLimit: syncLimit,
		MaxSessionTimeout: time.Minute})
	clustertest.Run(t, c, clustertest.Timing{Tick: tick, SyncLimit: syncLimit})
}
