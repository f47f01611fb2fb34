package histories

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
)

// nemesis causes faults at random: in a member, in a client's network, or in both.
type nemesis struct {
	t       *testing.T
	random  *rand.Rand
	servers cluster.Cluster
	cables  []kit.Cable
	clock   clock
	prey    []*history // the clients that hold these are preferred
	notes   []porcupine.Annotation
}

// trouble begins a fault when it is called; it returns the fault's name and a function that undoes it.
type trouble func() (string, func() error)

func (n *nemesis) members() []trouble {
	i, size := n.random.IntN(n.servers.Size()), n.servers.Size()
	undo := func(name string, err error, mend func() error) (string, func() error) {
		require.NoError(n.t, err, name)
		return name, mend
	}
	start := func() error { return n.servers.Start(i) }
	return []trouble{
		func() (string, func() error) { return undo("member killed", n.servers.Kill(i), start) },
		func() (string, func() error) { return undo("member stopped", n.servers.Stop(i), start) },
		func() (string, func() error) {
			return undo("member hangs", n.servers.Pause(i), func() error { return n.servers.Resume(i) })
		},
		func() (string, func() error) {
			return undo("member partitioned", n.servers.Partition(i), n.servers.HealPeers)
		},
		func() (string, func() error) {
			return undo("one way between members cut", n.servers.CutLink(i, (i+1+n.random.IntN(size-1))%size),
				n.servers.HealPeers)
		},
		func() (string, func() error) {
			err := n.servers.Kill(i)
			require.NoError(n.t, err)
			return undo("member killed and wiped", n.servers.Wipe(i), start)
		},
	}
}

func (n *nemesis) networks() []trouble {
	i := n.random.IntN(n.servers.Size())
	cable := n.cables[n.hunt()]
	healed := func() error { cable.Heal(); return nil }
	freed := func() error { n.servers.HealClients(i); return nil }
	return []trouble{
		func() (string, func() error) { cable.Cut(); return "client cut off", healed },
		func() (string, func() error) { cable.Hang(); return "client's network hangs", healed },
		func() (string, func() error) { n.servers.CutClients(i); return "member's clients cut off", freed },
		func() (string, func() error) {
			n.servers.HangClients(i, proxy.ToClient)
			return "member's answers get lost", freed
		},
	}
}

// hunt chooses a client, often one that is about to hold something for long.
func (n *nemesis) hunt() int {
	among := n.prey[n.random.IntN(len(n.prey))]
	whoever := n.random.IntN(len(n.cables))
	if n.random.IntN(4) == 0 {
		return whoever
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if who := among.prey.Load(); who != nobody {
			return int(who)
		}
	}
	return whoever
}

// rage causes faults until ctx ends. All faults are undone then.
func (n *nemesis) rage(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, 200*time.Millisecond+n.upTo(1500*time.Millisecond))
		var made []trouble
		which := n.random.IntN(4)
		if which != 0 {
			members := n.members()
			made = append(made, members[n.random.IntN(len(members))])
		}
		if which < 2 {
			networks := n.networks()
			made = append(made, networks[n.random.IntN(len(networks))])
		}
		var mend []func() error
		for _, make := range made {
			began := n.clock.now()
			name, undo := make()
			n.t.Logf("%8.3fs %s", float64(began)/1e9, name)
			mend = append(mend, undo)
			n.notes = append(n.notes, porcupine.Annotation{Tag: "trouble", Start: began, End: began,
				Description: name})
		}
		// Some end before any client notices, some last longer than a session.
		pause(ctx, []time.Duration{n.upTo(time.Second), n.upTo(4 * time.Second),
			n.upTo(8 * time.Second)}[n.random.IntN(3)])
		for _, undo := range mend {
			require.NoError(n.t, undo())
		}
		for i := range made {
			n.notes[len(n.notes)-1-i].End = n.clock.now()
		}
		require.NoError(n.t, n.servers.AwaitServing(kit.Context(n.t)))
	}
}

func (n *nemesis) upTo(d time.Duration) time.Duration {
	return time.Duration(n.random.Int64N(int64(d)))
}
