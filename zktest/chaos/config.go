package chaos

import (
	"time"

	"github.com/go-curator/curator/zktest"
)

// Config limits the plans that [Test] draws. The zero value means the defaults.
type Config struct {
	// Count is the number of schedules to play unless a flag sets it; with -short a fifth of it. Default 100.
	Count uint64
	// Members are the sizes of ensembles to choose from. Default 1, 3, 3, 5.
	Members []int
	// Profiles are the releases of ZooKeeper to choose from. Default all.
	Profiles []zktest.Profile
	// SessionTimeouts are those to choose from: the scenario gives its clients [World.SessionTimeout].
	// Default 6, 10, 20 and 30 s.
	SessionTimeouts []time.Duration
	// TickTime and SyncLimit are the servers'. Default 2 s and 5 ticks, which are ZooKeeper's. A client that has
	// an option for how long a member may be out of date needs these values.
	TickTime  time.Duration
	SyncLimit int
	// Trouble limits the time of the faults: a plan's is half of it to all of it. Default 2 minutes (virtual).
	Trouble time.Duration
	// Patience limits the time for the service to make progress after the last fault, and for each of its processes
	// to stop. Default 2 minutes and four session timeouts.
	Patience time.Duration
	// Faults are the kinds to choose from, each as often as it is listed. Default [Usual]; add [PauseProcess]
	// if the service writes to a fenced store.
	Faults []Kind
	// Every is the mean time between two faults. Default 1 to 4 s, by the seed.
	Every time.Duration
	// Latency is the longest time that a [Store] takes for a write. Default 50 ms.
	Latency time.Duration
	// Plan changes a plan that was drawn from its seed, before it is played: it may add faults, and set [Plan.Own]
	// to further data that the scenario needs from the seed.
	Plan func(*Plan)
	// Server changes the members' configuration, which the plan has made, before they start.
	Server func(*Plan, *zktest.Config)
	// Custom are further kinds of faults, by name. A function injects its fault into the world and returns a
	// function that undoes it, or nil. List the kinds in Faults as well.
	Custom map[Kind]func(*World, Fault) (undo func())
	// Shrink limits the time, by the wall clock, for making a failing plan shorter. Default a minute; with a
	// negative value the plan stays as it is.
	Shrink time.Duration
}

func (c Config) withDefaults() Config {
	if c.Count == 0 {
		c.Count = 100
	}
	defaults(&c.Members, 1, 3, 3, 5)
	defaults(&c.Profiles, zktest.Profiles()...)
	defaults(&c.SessionTimeouts, 6*time.Second, 10*time.Second, 20*time.Second, 30*time.Second)
	defaults(&c.Faults, Usual()...)
	if c.TickTime <= 0 {
		c.TickTime = 2 * time.Second
	}
	if c.SyncLimit <= 0 {
		c.SyncLimit = 5
	}
	if c.Trouble <= 0 {
		c.Trouble = 2 * time.Minute
	}
	if c.Shrink == 0 {
		c.Shrink = time.Minute
	}
	if c.Latency <= 0 {
		c.Latency = 50 * time.Millisecond
	}
	return c
}

func defaults[T any](list *[]T, values ...T) {
	if len(*list) == 0 {
		*list = values
	}
}
