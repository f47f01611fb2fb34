package simulation_test

import (
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/mutant"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// Kinds of faults that only these works know.
const (
	// question: a process connects anew to servers that cannot say at the moment whether they stand alone.
	question  chaos.Kind = "question"
	flood     chaos.Kind = "burst"      // a client that holds something asks a distant server for very much
	wallClock chaos.Kind = "wall clock" // the wall clocks of all machines are set
	swarm     chaos.Kind = "swarm"      // a client asks for very much, whatever else happens

	lostParents chaos.Kind = "lost parents"       // replies to creates that may be those of directories are lost
	stranger    chaos.Kind = "stranger"           // a node of no session stands where contenders' and members' do
	anew        chaos.Kind = "numbers begin anew" // those of the queues, whose items are there
)

// custom are the faults that only these works know.
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

// question makes a client connect anew to servers that cannot tell it at the moment whether they stand alone.
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

// burst makes a client that holds something, if there is one, ask a distant server for very much. It must
// cost neither the session nor a read.
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

// swarm makes a client ask for very much at once. Every request gets an answer, or an end.
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
