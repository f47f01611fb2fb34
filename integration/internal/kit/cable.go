package kit

import (
	"strings"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/proxy"
)

// Cable is the network of one client: a separate proxy to each member.
type Cable []*proxy.Proxy

// Plug lays a cable.
func Plug(t testing.TB, c cluster.Cluster) Cable {
	t.Helper()
	var cable Cable
	for i := range c.Size() {
		cable = append(cable, proxy.New(t, c.Addr(i)))
	}
	return cable
}

// ConnectString names all its ends.
func (c Cable) ConnectString() string {
	var addrs []string
	for _, way := range c {
		addrs = append(addrs, way.Addr())
	}
	return strings.Join(addrs, ",")
}

// Hang lets nothing through any more.
func (c Cable) Hang() {
	for _, way := range c {
		way.Hang(proxy.Both)
	}
}

// Cut resets the connections and refuses new ones.
func (c Cable) Cut() {
	for _, way := range c {
		way.Cut()
	}
}

// Heal undoes both.
func (c Cable) Heal() {
	for _, way := range c {
		way.Heal()
	}
}

// ConnectedTo is Connected by a separate cable, to begin with to a certain member. When the test ends all of the
// cable works again before the client is closed.
func ConnectedTo(
	t testing.TB, c cluster.Cluster, member int, opts ...framework.Option,
) (*framework.Client, Cable) {
	t.Helper()
	cable := Plug(t, c)
	for i, way := range cable {
		if i != member%c.Size() {
			way.Cut()
		}
	}
	client, _ := Connected(t, cable.ConnectString(), opts...)
	cable.Heal()
	t.Cleanup(cable.Heal)
	return client, cable
}
