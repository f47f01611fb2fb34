package clients

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/zktest"
)

const (
	tick           = 200 * time.Millisecond
	sessionTimeout = 4 * time.Second
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a server for a client's story.
type target struct {
	name string
	addr string
	// cut closes all clients' connections; clients may reconnect immediately.
	cut func()
	// expire ends a session.
	expire func(session int64)
}

func onZktest(t *testing.T) target {
	kit.RanOn(t, "zktest")
	server := zktest.RunT(t, zktest.Config{TickTime: tick, Listen: "127.0.0.1:0", Profile: zktest.V38,
		ExtendedTypes: true, ReapInterval: tick})
	return target{
		name: "zktest", addr: server.Addr(),
		cut:    func() { server.Cut(0) },
		expire: server.Expire,
	}
}

func onZooKeeper(t *testing.T) target {
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, ExtendedTypes: true,
		ContainerCheckInterval: tick})
	link := proxy.New(t, node.Addr())
	return target{
		name: "ZooKeeper " + node.Version(), addr: link.Addr(),
		cut: func() {
			link.Cut()
			link.Heal()
		},
		expire: func(session int64) { kit.EndSession(t, node.Addr(), session) },
	}
}

// everywhere runs a story on zktest, and on a real server, which shows that the story is right.
func everywhere(t *testing.T, story func(t *testing.T, server target)) {
	t.Helper()
	for _, start := range []func(t *testing.T) target{onZktest, onZooKeeper} {
		server := start(t)
		if !t.Run(server.name, func(t *testing.T) { story(t, server) }) {
			require.FailNow(t, "the story does not hold", "on %s", server.name)
		}
	}
}
