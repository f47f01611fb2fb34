package simulation_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/node"
)

func init() { kinds["keeper"] = newKeeperWork }

// keeperWork: every client keeps a node of its own, whose data it sets, and which it closes and makes again; and all
// keep one more at the same path. In the end every own node is there, of its client's session and with its last data;
// one client has the common node, and keeps it; and after Close nothing is left.
type keeperWork struct {
	dir string

	mu      sync.Mutex
	entries map[*framework.Client]*entry
}

// entry has the keepers of a client.
type entry struct {
	path        string
	own, common *node.Keeper
	set         int    // number of data that were set
	last        string // the data that own must have after the last successful SetData
	closing     bool   // own is closing, by a Close whose context has ended
}

func newKeeperWork(w *world) workload {
	k := &keeperWork{dir: root + "/keeper", entries: map[*framework.Client]*entry{}}
	w.directory(k.dir)
	return k
}

// of returns the keepers of the actor's client.
func (k *keeperWork) of(a *actor) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[a.c]
	if e == nil {
		e = &entry{path: fmt.Sprint(k.dir, "/own-", a.id)}
		k.entries[a.c] = e
		var err error
		e.common, err = node.NewKeeper(a.c, k.dir+"/common", nil, node.WithTakeover(k.policy(a)))
		a.w.must(err)
	}
	if e.own == nil {
		var err error
		e.last = fmt.Sprint("made by ", a.who, " ", a.turn)
		e.own, err = node.NewKeeper(a.c, e.path, []byte(e.last), node.WithTakeover(k.policy(a)))
		a.w.must(err)
	}
	return e
}

func (k *keeperWork) policy(a *actor) node.Takeover {
	if a.r.IntN(2) == 0 {
		return node.AtStart
	}
	return node.Never
}

func (k *keeperWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	e := k.of(a)
	if e.closing || a.r.IntN(4) == 0 {
		return k.leave(ctx, a, e)
	}
	e.set++
	e.last = fmt.Sprint(a.who, " ", e.set)
	done := a.timed(ctx, "SetData")
	err := e.own.SetData(ctx, []byte(e.last))
	done()
	if err != nil {
		return err
	}
	if err := e.own.WaitCreated(ctx); err != nil {
		return err
	}
	k.look(a, e.own)
	k.look(a, e.common)
	return nil
}

// look checks that a node with the state There belongs to the client's session, if that is the same before and after.
func (k *keeperWork) look(a *actor, keeper *node.Keeper) {
	before := sessionOf(a.c)
	status := keeper.Status()
	leader := a.w.newest()
	if status.State != node.There || leader == nil {
		return
	}
	_, stat, err := leader.Get(status.Path)
	if err == nil && stat.Czxid == status.Czxid && before != 0 && sessionOf(a.c) == before &&
		stat.EphemeralOwner != before {
		a.w.violate("keeper: client %d takes the node of session %#x, %s, for its own", a.id, stat.EphemeralOwner,
			status.Path)
	}
}

// leave closes the own node: when Close returns nil it is gone.
func (k *keeperWork) leave(ctx context.Context, a *actor, e *entry) error {
	e.closing = true
	done := a.timed(ctx, "Close")
	err := e.own.Close(ctx)
	done()
	if err != nil {
		return err
	}
	e.own, e.closing = nil, false
	if leader := a.w.newest(); leader != nil {
		if _, stat, err := leader.Get(e.path); err == nil && stat.EphemeralOwner == sessionOf(a.c) {
			a.w.violate("keeper: client %d has closed %s, and it is there", a.id, e.path)
		}
	}
	return nil
}

func (k *keeperWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	at := w.ens.Member(l)
	owners := 0
	var common int64
	for i, c := range w.present() {
		e := k.entries[c]
		if e == nil || c.Err() != nil {
			continue
		}
		if e.own != nil && !e.closing {
			data, stat, err := at.Get(e.path)
			switch {
			case err != nil || stat.EphemeralOwner != sessionOf(c):
				w.violate("keeper: client %d's node is not there, at rest: %v, %v", i, err, e.own.Status())
			case string(data) != e.last:
				w.violate("keeper: client %d's node has the data %q instead of %q", i, data, e.last)
			case e.own.Status().State != node.There:
				w.violate("keeper: client %d's node is there, and it says: %v", i, e.own.Status())
			}
		}
		if _, stat, err := at.Get(k.dir + "/common"); err == nil && stat.EphemeralOwner == sessionOf(c) {
			owners++
			common = stat.Czxid
		}
	}
	time.Sleep(10 * time.Second)
	_, stat, err := at.Get(k.dir + "/common")
	if len(k.entries) > 0 && (err != nil || owners != 1 || stat.Czxid != common) {
		w.violate("keeper: %d have the common node, and it does not come to rest: %v", owners, err)
	}
	for _, e := range k.entries {
		for _, keeper := range []*node.Keeper{e.own, e.common} {
			if keeper == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(background, w.plan.patience())
			err := keeper.Close(ctx)
			cancel()
			if err != nil && !isErr(err, framework.ErrClosed) {
				w.violate("keeper: %s is not closed: %v", keeper.Path(), err)
			}
		}
	}
	w.empty(k.dir)
}
