// Package cluster has the interface for tests to a group of ZooKeeper servers, whatever they run on.
//
// Behind it are child processes ([github.com/go-curator/curator/integration/zkserver.StartEnsemble]) and containers
// (package zkcontainer). A story that is told with a Cluster runs on all of them.
package cluster

import (
	"context"

	"github.com/go-curator/curator/integration/proxy"
)

// Cluster is a group of servers that form one ZooKeeper. Members are counted from 0.
//
// Each member stands behind a separate proxy, which clients must use: its address stays the same for life, and the
// connections to it can be cut while the member is well. The links among the members can be cut too, separately.
//
// A method that is impossible returns an error, such as killing a member that is down. Faults last until they are
// undone, and all of them end with the test. Name, Size, ConnectString, Addr, Leader and AwaitServing are safe for
// concurrent use; the others belong to one goroutine at a time.
type Cluster interface {
	// Name describes the cluster, for reports: "3 processes, ZooKeeper 3.8.0".
	Name() string
	// Size is the number of members, including stopped ones.
	Size() int
	// ConnectString names all members, as a client wants it.
	ConnectString() string
	// Addr is the host:port of one member for clients.
	Addr(i int) string

	// Leader waits until exactly one running member reports that it leads, and serves requests, and returns its
	// number. Members that are paused are not asked. A leader that has been cut off keeps reporting that for
	// (syncLimit + 1) ticks: only then is there one again. It ends with ctx.
	Leader(ctx context.Context) (int, error)
	// AwaitServing waits until every running member serves its clients and exactly one of them leads. It ends
	// with ctx, or with an error if a member has ended by itself.
	AwaitServing(ctx context.Context) error

	// Kill ends a member immediately, as SIGKILL does, paused or not. It returns when the member has ended.
	Kill(i int) error
	// Stop ends a member in order, as SIGTERM does. It returns when it is gone.
	Stop(i int) error
	// Start brings a member that is down back, with its addresses and its data. It returns when it is on its
	// way: see AwaitServing.
	Start(i int) error
	// Pause stops a member with its connections: they stay, new ones are accepted by the system, and there are no
	// replies.
	Pause(i int) error
	// Resume continues a paused member.
	Resume(i int) error
	// Wipe deletes the data of a member that is down: it comes back as a new one would.
	Wipe(i int) error

	// Partition cuts a member off from all the others, both ways and silently: messages do not arrive. Clients still
	// reach it.
	Partition(i int) error
	// CutLink cuts one direction of one link: what from sends to the other does not arrive, on whichever side's
	// connection. It is errors.ErrUnsupported where the back end cannot.
	CutLink(from, to int) error
	// HealPeers undoes all Partition and CutLink. On a connection that both ends have kept, the delayed bytes are
	// delivered, as TCP would.
	HealPeers() error

	// CutClients closes the connections of a member's clients and refuses new ones.
	CutClients(i int)
	// HangClients holds back the bytes between a member and its clients, the given way, until HealClients.
	HangClients(i int, way proxy.Direction)
	// HealClients undoes both.
	HealClients(i int)
}

// RollingRestart restarts the members one after the other, each when all serve again, as operators do. With
// orderly they are stopped, without killed.
func RollingRestart(ctx context.Context, c Cluster, orderly bool) error {
	for i := range c.Size() {
		end := c.Kill
		if orderly {
			end = c.Stop
		}
		if err := end(i); err != nil {
			return err
		}
		if err := c.Start(i); err != nil {
			return err
		}
		if err := c.AwaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}
