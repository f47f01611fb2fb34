package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/node"
)

func init() { kinds["discovery"] = newDiscoveryWork }

// discoveryWork: every client registers instances, one after the other, changes and unregisters them, and has a cache
// of them all; and all register one more under the same ID. In the end every registered instance is there, in its
// client's session and with its last data, and one client has the common instance; an instance that was unregistered,
// or never registered, is not there and does not come back; and every cache shows exactly the instances that exist.
type discoveryWork struct {
	base string

	mu      sync.Mutex
	clients map[*framework.Client]*registrar
}

const commonID = "common"

// registrar has the registrations and caches of a client.
type registrar struct {
	services    *discovery.Discovery[string]
	cache       *discovery.Cache[string]
	provider    *discovery.Provider[string] // of instances that are not common
	down        map[string]time.Time        // when instances, by place, were reported as down
	own, common *discovery.Registration[string]
	made        int
	last        discovery.Instance[string] // the instance that own must have after the last successful call
	open        bool                       // a call that was to change own has failed: its instance is not known
	gone        []string                   // IDs that were unregistered
	failed      []string                   // IDs whose Register has failed
}

func newDiscoveryWork(w *world) workload {
	return &discoveryWork{base: root + "/discovery", clients: map[*framework.Client]*registrar{}}
}

func (k *discoveryWork) dir() string { return k.base + "/web" }

// of returns the registrar of the actor's client.
func (k *discoveryWork) of(a *actor) *registrar {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.clients[a.c]
	if r == nil {
		var errs [2]error
		r = &registrar{}
		r.services, errs[0] = discovery.New[string](a.c, k.base)
		r.cache, errs[1] = r.services.Cache("web")
		a.w.must(errors.Join(errs[:]...))
		var err error
		r.down = map[string]time.Time{}
		r.provider, err = discovery.NewProvider(r.cache, discovery.WithDownAfter(2, resting),
			discovery.WithStrategy(pick(a.r, discovery.RoundRobin, discovery.Random, discovery.Sticky)),
			discovery.WithFilter(func(i discovery.Instance[string]) bool { return i.ID != commonID }))
		a.w.must(err)
		k.clients[a.c] = r
	}
	return r
}

func (k *discoveryWork) turn(ctx context.Context, a *actor) (err error) {
	a.rest()
	r := k.of(a)
	k.absent(a, r)
	switch {
	case r.common == nil && a.r.IntN(3) == 0 && !a.w.calm():
		err = k.join(ctx, a, r)
	case r.own == nil:
		err = k.register(ctx, a, r)
	case r.open || a.r.IntN(3) == 0:
		err = k.unregister(ctx, a, r)
	default:
		err = k.update(ctx, a, r)
	}
	if err != nil {
		return err
	}
	k.look(a, r.own)
	k.look(a, r.common)
	if err := r.cache.WaitSynced(ctx); err != nil {
		return err
	}
	k.choose(a, r)
	return nil
}

// resting is the time for which the provider does not choose an instance that was reported as down.
const resting = 5 * time.Second

// choose has the provider choose, and sometimes reports the instance as down. The chosen instance is registered, as the
// cache shows, accepted by the filter, and not down.
func (k *discoveryWork) choose(a *actor, r *registrar) {
	for range a.r.IntN(4) {
		before := r.cache.Instances()
		chosen, err := r.provider.Instance()
		if after := r.cache.Instances(); !slices.EqualFunc(before, after, same) {
			continue
		}
		usable := slices.DeleteFunc(before, func(i discovery.Instance[string]) bool {
			return i.ID == commonID || time.Since(r.down[place(i)]) < resting
		})
		switch {
		case errors.Is(err, discovery.ErrNoInstance) && len(usable) == 0:
		case err != nil:
			a.w.violate("discovery: client %d's provider chooses none of %v: %v", a.id, usable, err)
		case !slices.ContainsFunc(usable, func(i discovery.Instance[string]) bool { return same(i, chosen) }):
			a.w.violate("discovery: client %d's provider chooses %s, which is none of %v", a.id, chosen.ID, usable)
		case a.r.IntN(3) == 0:
			r.provider.NoteError(chosen)
			r.provider.NoteError(chosen)
			r.down[place(chosen)] = time.Now()
		}
	}
}

func same(i, other discovery.Instance[string]) bool { return place(i) == place(other) }

// place identifies an instance for reported errors: an instance that registers again is another.
func place(i discovery.Instance[string]) string {
	return fmt.Sprint(i.ID, i.Address, i.Port, i.RegistrationTime)
}

// instance returns an instance with an unused ID.
func (r *registrar) instance(a *actor) discovery.Instance[string] {
	r.made++
	id := fmt.Sprint("i-", a.who, "-", r.made)
	return discovery.Instance[string]{Name: "web", ID: id, Port: r.made, Payload: "first of " + id}
}

func (k *discoveryWork) register(ctx context.Context, a *actor, r *registrar) error {
	i := r.instance(a)
	done := a.timed(ctx, "Register")
	own, err := r.services.Register(ctx, i)
	done()
	if err != nil {
		r.failed = append(r.failed, i.ID)
		return err
	}
	r.own, r.last, r.open = own, i, false
	return nil
}

// join registers the common instance, and takes it from the client that has it. Without the time limit it would wait
// until the end if another client took the instance before this client learned that it had it.
func (k *discoveryWork) join(ctx context.Context, a *actor, r *registrar) error {
	i := r.instance(a)
	i.ID = commonID
	limited, cancel := context.WithTimeout(ctx, below(a.r, a.w.plan.SessionTimeout))
	defer cancel()
	done := a.timed(limited, "Register")
	common, err := r.services.Register(limited, i)
	done()
	if err == nil {
		r.common = common
	} else if ctx.Err() == nil {
		a.expected(limited, err)
		err = nil
	}
	return err
}

func (k *discoveryWork) update(ctx context.Context, a *actor, r *registrar) error {
	next := r.last
	next.Payload = fmt.Sprint(a.who, " in turn ", a.turn)
	done := a.timed(ctx, "Update")
	err := r.own.Update(ctx, next)
	done()
	if err != nil {
		r.open = true
		return err
	}
	r.last = next
	return nil
}

func (k *discoveryWork) unregister(ctx context.Context, a *actor, r *registrar) error {
	r.open = true // until Unregister succeeds
	done := a.timed(ctx, "Unregister")
	err := r.own.Unregister(ctx)
	done()
	if err != nil {
		return err
	}
	r.gone = append(r.gone, r.last.ID)
	r.own, r.open = nil, false
	return nil
}

// look checks that the node of a registration with state There belongs to the client's session, if that is the same
// before and after: no two clients have one node.
func (k *discoveryWork) look(a *actor, r *discovery.Registration[string]) {
	if r == nil {
		return
	}
	before := sessionOf(a.c)
	status := r.Status()
	l := a.w.ens.Leader()
	if status.State != node.There || l < 0 {
		return
	}
	_, stat, err := a.w.ens.Member(l).Get(status.Path)
	if err == nil && stat.Czxid == status.Czxid && before != 0 && sessionOf(a.c) == before &&
		stat.EphemeralOwner != before {
		a.w.violate("discovery: client %d takes the instance of session %#x, %s, for its own", a.id,
			stat.EphemeralOwner, status.Path)
	}
}

// absent checks that no instance that this client has unregistered is there: a node of a past session was deleted
// before, by Unregister or with the session.
func (k *discoveryWork) absent(a *actor, r *registrar) {
	leader, session := a.w.newest(), sessionOf(a.c) // not a former leader that was paused
	if leader == nil || session == 0 {
		return
	}
	for _, id := range r.gone {
		_, stat, err := leader.Get(k.dir() + "/" + id)
		if err == nil && stat.EphemeralOwner == session {
			a.w.violate("discovery: client %d has unregistered %s, and it is there", a.id, id)
		}
	}
}

func (k *discoveryWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	for i, c := range w.present() {
		r := k.clients[c]
		if r == nil || c.Err() != nil {
			continue
		}
		k.there(w, i, c, r)
		for _, id := range slices.Concat(r.gone, r.failed) {
			if w.ens.Member(l).Exists(k.dir() + "/" + id) {
				w.violate("discovery: client %d has given up %s, and it is there at rest", i, id)
			}
		}
		k.shown(w, i, r)
	}
	k.shared(w)
	for _, r := range k.clients {
		w.must(r.cache.Close())
		for _, registration := range []*discovery.Registration[string]{r.own, r.common} {
			if registration == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(background, w.plan.patience())
			err := registration.Unregister(ctx)
			cancel()
			if err != nil && !isErr(err, framework.ErrClosed) {
				w.violate("discovery: %s is not unregistered: %v", registration.Path(), err)
			}
		}
	}
	w.empty(k.dir())
}

// there checks a client's own instance.
func (k *discoveryWork) there(w *world, i int, c *framework.Client, r *registrar) {
	if r.own == nil || r.open {
		return
	}
	data, stat, err := w.ens.Member(w.ens.Leader()).Get(k.dir() + "/" + r.last.ID)
	var has struct{ Payload string }
	switch {
	case err != nil || stat.EphemeralOwner != sessionOf(c):
		w.violate("discovery: client %d's instance is not there, at rest: %v, %v", i, err, r.own.Status())
	case json.Unmarshal(data, &has) != nil || has.Payload != r.last.Payload:
		w.violate("discovery: client %d's instance is %s, and should have %q", i, data, r.last.Payload)
	case r.own.Status().State != node.There:
		w.violate("discovery: client %d's instance is there, and it says: %v", i, r.own.Status())
	}
}

// shown checks that a cache shows exactly the instances that exist.
func (k *discoveryWork) shown(w *world, i int, r *registrar) {
	want := map[string]string{}
	for path, n := range w.ens.Member(w.ens.Leader()).Tree() {
		var has struct{ ID, Payload string }
		if len(path) > len(k.dir()) && path[:len(k.dir())] == k.dir() && json.Unmarshal(n.Data, &has) == nil {
			want[has.ID] = has.Payload
		}
	}
	shown := map[string]string{}
	for _, instance := range r.cache.Instances() {
		shown[instance.ID] = instance.Payload
	}
	if !maps.Equal(want, shown) {
		w.violate("discovery: client %d's cache shows %v at rest, and there is %v", i, shown, want)
	}
}

// shared checks that one client has the common instance, if any registers it, and keeps it.
func (k *discoveryWork) shared(w *world) {
	at := func() (wanted bool, owners []int64, czxid int64) {
		for _, c := range w.present() {
			r := k.clients[c]
			if r == nil || r.common == nil || c.Err() != nil {
				continue
			}
			wanted = true
			_, stat, err := w.ens.Member(w.ens.Leader()).Get(k.dir() + "/" + commonID)
			if err == nil && stat.EphemeralOwner == sessionOf(c) {
				owners, czxid = append(owners, stat.EphemeralOwner), stat.Czxid
			}
		}
		return wanted, slices.Compact(owners), czxid
	}
	wanted, _, before := at()
	time.Sleep(10 * time.Second)
	_, owners, after := at()
	if wanted && (len(owners) != 1 || before != after) {
		w.violate("discovery: %d have the common instance, and it does not come to rest", len(owners))
	}
}
