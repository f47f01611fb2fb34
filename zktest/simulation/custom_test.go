package simulation_test

import (
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/mutant"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// Kinds of faults that only these works have.
const (
	// question: a process opens a new connection, and the servers cannot reply to the question whether they are
	// standalone.
	question  chaos.Kind = "question"
	flood     chaos.Kind = "burst"      // a client with a hold sends very many requests over a slow connection
	wallClock chaos.Kind = "wall clock" // the wall clocks of all clients' machines are set
	swarm     chaos.Kind = "swarm"      // a client sends very many requests, whatever else happens

	lostParents chaos.Kind = "lost parents"       // replies to creates that may create directories are lost
	stranger    chaos.Kind = "stranger"           // a node without a contender or member is created among theirs
	anew        chaos.Kind = "numbers begin anew" // the sequence numbers of queues that have items
)

// custom returns the faults that only these works have.
func custom(s *stage) map[chaos.Kind]func(*chaos.World, chaos.Fault) func() {
	kinds := map[chaos.Kind]func(*chaos.World, chaos.Fault) func(){
		question:  func(_ *chaos.World, f chaos.Fault) func() { return s.w.question(f) },
		flood:     func(_ *chaos.World, f chaos.Fault) func() { return s.w.burst(f) },
		swarm:     func(_ *chaos.World, f chaos.Fault) func() { s.w.swarm(f); return nil },
		wallClock: func(_ *chaos.World, f chaos.Fault) func() { s.w.setWallClock(f.Delay); return nil },

		lostParents: func(_ *chaos.World, f chaos.Fault) func() { return s.w.loseParents(f.After, f.Times) },
		stranger:    func(_ *chaos.World, f chaos.Fault) func() { return s.w.stranger(f.Times) },
		anew:        func(*chaos.World, chaos.Fault) func() { s.w.anew(); return nil },
	}
	atGrant(s, kinds)
	return kinds
}

// question makes a client reconnect to servers that at that moment cannot reply to the question whether they are
// standalone.
func (w *world) question(f chaos.Fault) (undo func()) {
	client := f.Process % w.plan.Clients
	id := w.session(client)
	if id == 0 {
		return nil
	}
	for _, m := range w.ens.Members() {
		m.Inject(zktest.Fault{
			Session:    id,
			Op:         zktest.OpGetData,
			PathPrefix: "/zookeeper/config",
			Action:     zktest.ReplyError,
			Err:        f.Err,
			Times:      f.Times,
		})
	}
	w.ens.Cut(id)
	return func() {
		for i, c := range w.present() {
			if s := c.Safety(); w.plan.Members == 1 && s.Known && !s.Standalone {
				w.violate(
					"client %d takes a server that stands alone, and never said otherwise, for a member",
					i,
				)
			}
		}
	}
}

// burst makes a client, one with a hold if there is any, send very many requests over a slow connection. It must cost
// neither the session nor a read.
func (w *world) burst(f chaos.Fault) (undo func()) {
	clients := w.present()
	if len(clients) == 0 {
		return nil
	}
	client := f.Process % len(clients)
	for i := range clients {
		if n := (client + i) % len(clients); clients[n].Safety().Holds > 0 {
			client = n
			break
		}
	}
	c, id := clients[client], sessionOf(clients[client])
	for _, m := range w.ens.Members() {
		m.Delay(id, f.Delay)
	}
	for range burst {
		c.GetData().InBackground().ForPath(background, root).Then(func(_ framework.DataResult, err error) {
			if err != nil {
				w.violate("client %d: a read among many, while nothing is wrong: %v", client, err)
			}
		})
	}
	return func() {
		for _, m := range w.ens.Members() {
			m.Delay(id, 0)
		}
		if now := w.session(client); now != id {
			w.violate(
				"client %d has lost its session %#x by nothing but many reads of its own, and has %#x",
				client,
				id,
				now,
			)
		}
	}
}

// swarm makes a client send very many requests at the same time. Each of them gets a reply, or fails.
func (w *world) swarm(f chaos.Fault) {
	clients := w.present()
	if len(clients) == 0 {
		return
	}
	c := clients[f.Process%len(clients)]
	for range burst / 3 {
		w.asked.Add(1)
		c.GetData().
			InBackground().
			ForPath(background, root).
			Then(func(framework.DataResult, error) { w.asked.Add(-1) })
	}
}

// setWallClock sets the wall clocks of the clients' machines, which must have no effect.
func (w *world) setWallClock(d time.Duration) {
	var before, after []time.Duration
	for _, c := range w.present() {
		before = append(before, c.Safety().Remaining)
	}
	mutant.SetWallClock(d)
	for _, c := range w.present() {
		after = append(after, c.Safety().Remaining)
	}
	if !slices.Equal(before, after) {
		w.violate(
			"wall clocks were set ahead by %v, and what is held is certain for %v instead of %v",
			d,
			after,
			before,
		)
	}
}
