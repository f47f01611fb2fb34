package play

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/go-curator/curator/compare/internal/clock"
	"github.com/go-curator/curator/compare/internal/ledger"
	"github.com/go-curator/curator/compare/internal/ways"
	"github.com/go-curator/curator/compare/servers"
	"github.com/go-curator/curator/integration/proxy"
)

// Fault is something that goes wrong, and what makes it right again.
type Fault struct {
	ID    string
	Title string // for tables
	What  string // description
	// On reports whether the fault applies to a way.
	On      func(k ways.Kind) bool
	servers servers.Options
	// hold returns the length of the victim's hold; nil: until the fault is over, or, if the lease is not renewed, a
	// good third of it.
	hold func(lease time.Duration) time.Duration
	// next is the same for the next holder.
	next func(lease time.Duration) time.Duration
	// begin strikes when the victim has the lock.
	begin func(p *play) error
	// lasts returns the length of the fault, if no other contender gets the lock before that.
	lasts func(lease time.Duration) time.Duration
	fixed bool // it always lasts that long
	// linger returns how long the fault lasts after another contender gets the lock; nil: not at all.
	linger func(lease time.Duration) time.Duration
	spread bool // the contenders begin with different servers
	end    func(p *play) error
	// other replaces the whole play.
	other func(p *play) error
}

func every(ways.Kind) bool { return true }

func on(kinds ...ways.Server) func(ways.Kind) bool {
	return func(k ways.Kind) bool { return slices.Contains(kinds, k.Server) }
}

// leases is so many leases.
func leases(n float64) func(time.Duration) time.Duration {
	return func(lease time.Duration) time.Duration { return time.Duration(n * float64(lease)) }
}

// Faults are all, in the order of the tables.
var Faults = []Fault{
	{ID: "none", Title: "nothing", What: "Three contenders take turns.", On: every, lasts: leases(0.5), fixed: true},
	{ID: "long-work", Title: "long work", What: "Nothing goes wrong, but the critical section takes two and a half leases.",
		On: every, hold: leases(2.5), lasts: leases(2.6), fixed: true},
	{ID: "killed", Title: "holder killed", What: "The holder is sent SIGKILL.", On: every, lasts: leases(5),
		begin: func(p *play) error { return p.victim.kill() }},
	{ID: "killed-asking", Title: "killed while asking",
		What: "One after the other, six processes are killed 10, 30, 50, 90, 130 and 210 ms after they asked for the free lock, " +
			"over a network that takes 20 ms each way. Then another asks.",
		On: every, other: (*play).killAsking},
	{ID: "stopped", Title: "holder stopped", What: "The holder is sent SIGSTOP, and SIGCONT when somebody else has the lock, " +
		"or after five leases.", On: every, lasts: leases(5),
		begin: func(p *play) error { return p.victim.signal(syscall.SIGSTOP) },
		end:   func(p *play) error { return p.victim.signal(syscall.SIGCONT) }},
	{ID: "cut", Title: "holder cut off, reset", What: "The holder's connections are reset and new ones refused, until " +
		"somebody else has had the lock for half a lease, or for five leases.", On: every, lasts: leases(5), linger: leases(0.5),
		begin: func(p *play) error { p.victim.cut(); return nil },
		end:   func(p *play) error { p.victim.heal(); return nil }},
	{ID: "silent", Title: "holder cut off, silent", What: "What the holder and the servers send each other does not arrive, " +
		"until somebody else has had the lock for half a lease, or for five leases.", On: every, lasts: leases(5), linger: leases(0.5),
		begin: func(p *play) error { p.victim.hang(proxy.Both); return nil },
		end:   func(p *play) error { p.victim.heal(); return nil }},
	{ID: "slow-release", Title: "slow release", What: "What the holder sends is kept back, its release with it, and arrives " +
		"when somebody else has the lock.", On: every, hold: leases(0.25), next: leases(0.35), lasts: leases(5),
		begin: func(p *play) error { p.victim.hang(proxy.ToServer); return nil },
		end:   func(p *play) error { p.victim.heal(); return nil }},
	{ID: "server-killed", Title: "server restarted", What: "The server is sent SIGKILL and started again with its data; " +
		"of five, three at once.", On: every, lasts: leases(3),
		begin: func(p *play) error {
			return p.most(func(i int) error { return errors.Join(p.server.Kill(i), p.server.Start(i)) })
		}},
	{ID: "server-wiped", Title: "server restarted empty", What: "The same, and the data are lost. Not for databases: they have " +
		"more to lose.", On: func(k ways.Kind) bool { return k.Server != ways.MariaDB && k.Server != ways.PostgreSQL }, lasts: leases(3),
		begin: func(p *play) error {
			return p.most(func(i int) error {
				return errors.Join(p.server.Kill(i), p.server.Wipe(i), p.server.Start(i))
			})
		}},
	{ID: "server-paused", Title: "server stands still", What: "The server is sent SIGSTOP, and SIGCONT after one and a half " +
		"leases; of five, three.", On: every, lasts: leases(1.5), fixed: true,
		begin: func(p *play) error { return p.most(p.server.Pause) },
		end:   func(p *play) error { return p.most(p.server.Resume) }},
	{ID: "promoted", Title: "replica promoted", What: "The replica hears nothing for a lease, then the holder is granted the lock, the " +
		"first server is sent SIGKILL and the replica promoted.", On: on(ways.RedisPair), lasts: leases(3),
		begin: func(p *play) error { return p.server.(*servers.Pair).Promote() }},
	{ID: "one-lost", Title: "one server lost", What: "Of three servers (five of RedLock's), one that the holder uses is sent SIGKILL, " +
		"and started again after one and a half leases.", On: on(ways.ZooKeeper, ways.Etcd, ways.FiveRedis),
		servers: servers.Options{Members: 3}, lasts: leases(1.5), fixed: true,
		begin: func(p *play) (err error) {
			if p.down, err = p.victim.member(); err != nil {
				return err
			}
			return p.server.Kill(p.down)
		},
		end: func(p *play) error { return p.server.Start(p.down) }},
	{ID: "majority-lost", Title: "majority lost", What: "Of three servers two, of five three, are sent SIGKILL, and started " +
		"again after one and a half leases.", On: on(ways.ZooKeeper, ways.Etcd, ways.FiveRedis),
		servers: servers.Options{Members: 3}, lasts: leases(1.5), fixed: true,
		begin: func(p *play) error { return p.most(p.server.Kill) },
		end:   func(p *play) error { return p.most(p.server.Start) }},
	{ID: "member-cut", Title: "holder's member cut off", What: "Of three servers, the one that the holder is connected to is " +
		"cut off from the others, which notice at once, until somebody else has had the lock for a lease. The holder " +
		"still reaches it, and all others, too.", On: on(ways.ZooKeeper),
		servers: servers.Options{Members: 3}, lasts: leases(5), linger: leases(1), spread: true,
		begin: func(p *play) error {
			i, err := p.victim.member()
			if err != nil {
				return err
			}
			return p.server.(*servers.ZooKeeper).PartitionNoticed(i)
		},
		end: func(p *play) error { return p.server.(*servers.ZooKeeper).HealPeers() }},
	{ID: "clock-step", Title: "server's clock stepped", What: "The wall clock of the server's process is set an hour ahead; " +
		"of five, that of one.", On: every, lasts: leases(1.5),
		begin: func(p *play) error { return p.server.Step(0, time.Hour) }},
	{ID: "holder-ahead", Title: "holder's clock set ahead", What: "The wall clock of the holder's process is set an hour ahead.",
		On: every, lasts: leases(1.5), begin: func(p *play) error { return p.stepVictim(time.Hour) }},
	{ID: "holder-back", Title: "holder's clock set back", What: "The same, an hour back.",
		On: every, lasts: leases(1.5), begin: func(p *play) error { return p.stepVictim(-time.Hour) }},
}

// FindFault returns a fault by its ID.
func FindFault(id string) (Fault, error) {
	for _, f := range Faults {
		if f.ID == id {
			return f, nil
		}
	}
	return Fault{}, fmt.Errorf("there is no fault %q: compare faults lists them", id)
}

// stepVictim steps the holder's clock, and has the holder report the time.
func (p *play) stepVictim(by time.Duration) error {
	asked := ledger.Now()
	if err := errors.Join(clock.Step(p.victim.cmd.Process.Pid, by), p.victim.say("clock")); err != nil {
		return err
	}
	var now time.Time
	if err := p.must(begins, "the holder says what time it is", func() bool {
		for _, l := range p.lines {
			if l.Event == ledger.Clock && l.Who == p.victim.id && l.At > asked {
				var err error
				now, err = time.Parse(time.RFC3339, l.Note)
				return err == nil
			}
		}
		return false
	}); err != nil {
		return err
	}
	if !clock.Stepped(now, by) {
		return fmt.Errorf("the holder's clock was not stepped by %v: it says %v", by, now)
	}
	return nil
}

// most does it to a majority of the servers: to one of one, two of three, three of five.
func (p *play) most(do func(i int) error) (err error) {
	for i := range len(p.server.Addrs())/2 + 1 {
		err = errors.Join(err, do(i))
	}
	return err
}
