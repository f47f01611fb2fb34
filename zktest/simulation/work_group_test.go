package simulation_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest"
)

func init() { kinds["group"] = newGroupWork }

// groupWork: all clients join a group, change their data, leave and join again, and follow the other members. No client
// counts a node without a session, or a node twice; events fit the events before; and in the end every member shows,
// and has followed to, exactly the present members, with their last data.
type groupWork struct {
	path string

	mu      sync.Mutex
	clients map[*framework.Client]*joined
}

// joined is a client's membership.
type joined struct {
	member  *group.Member
	set     int
	leaving bool // by a Leave whose context has ended
	closed  chan struct{}

	mu      sync.Mutex
	shown   map[string]string // result of the events: data by id
	current bool
}

func newGroupWork(w *world) workload {
	w.directory(root + "/group")
	return &groupWork{path: root + "/group", clients: map[*framework.Client]*joined{}}
}

// of returns the membership of the actor's client.
func (k *groupWork) of(a *actor) *joined {
	k.mu.Lock()
	defer k.mu.Unlock()
	j := k.clients[a.c]
	if j == nil || j.member == nil {
		j = &joined{closed: make(chan struct{}), shown: map[string]string{}}
		var err error
		j.member, err = group.Join(a.c, k.path, fmt.Sprint("m-", a.id), fmt.Append(nil, "first of ", a.turn))
		a.w.must(err)
		k.clients[a.c] = j
		go k.follow(a, j, j.member)
	}
	return j
}

// follow applies the events to an empty set.
func (k *groupWork) follow(a *actor, j *joined, m *group.Member) {
	defer close(j.closed)
	for event, err := range m.Follow(background) {
		if err != nil {
			if !isErr(err, framework.ErrClosed, cache.ErrClosed) {
				a.w.violate("group: client %d follows until %v", a.id, err)
			}
			return
		}
		j.mu.Lock()
		_, there := j.shown[event.Member.ID]
		fits := true
		switch event.Type {
		case group.Joined:
			fits = !there && event.Member.SessionID != 0
			j.shown[event.Member.ID] = string(event.Member.Data)
		case group.Changed:
			fits = there
			j.shown[event.Member.ID] = string(event.Member.Data)
		case group.Left:
			fits = there
			delete(j.shown, event.Member.ID)
		case group.Current, group.Outdated:
			now := event.Type == group.Current
			fits, j.current = j.current != now, now
		}
		if !fits {
			a.w.violate("group: client %d is told %v, and before it shows %v", a.id, event, j.shown)
		}
		j.mu.Unlock()
	}
}

func (k *groupWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	j := k.of(a)
	if j.leaving || a.r.IntN(5) == 0 {
		return k.leave(ctx, a, j)
	}
	j.set++
	done := a.timed(ctx, "SetData")
	err := j.member.SetData(ctx, k.data(a.id, j))
	done()
	if err == nil {
		err = j.member.Joined(ctx)
	}
	if err != nil {
		return err
	}
	done = a.timed(ctx, "WaitFor")
	members, err := j.member.WaitFor(ctx, 1)
	done()
	if err == nil {
		k.count(a, members)
	}
	return err
}

func (k *groupWork) data(id int, j *joined) []byte { return fmt.Appendf(nil, "%d's %d", id, j.set) }

// count checks members that are reported as current.
func (k *groupWork) count(a *actor, members []group.Info) {
	if len(members) == 0 {
		a.w.violate("group: client %d has waited for one, and there is none", a.id)
	}
	last := int64(0)
	for _, m := range members {
		switch {
		case m.SessionID == 0 || !strings.HasPrefix(m.ID, "m-"):
			a.w.violate("group: client %d counts %s, which belongs to session %#x", a.id, m.ID, m.SessionID)
		case m.Czxid <= last:
			a.w.violate("group: client %d's members are not in the order in which they have joined: %v", a.id, members)
		}
		last = m.Czxid
	}
}

// leave ends the membership: when Leave returns nil the node is gone.
func (k *groupWork) leave(ctx context.Context, a *actor, j *joined) error {
	j.leaving = true
	done := a.timed(ctx, "Leave")
	err := j.member.Leave(ctx)
	done()
	if err != nil {
		return err
	}
	<-j.closed
	path := k.path + "/" + j.member.ID()
	k.mu.Lock()
	j.member = nil
	k.mu.Unlock()
	if leader := a.w.newest(); leader != nil {
		if _, stat, err := leader.Get(path); err == nil && stat.EphemeralOwner == sessionOf(a.c) {
			a.w.violate("group: client %d has left, and %s is there", a.id, path)
		}
	}
	return nil
}

func (k *groupWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	there := map[string]string{}
	for path, n := range w.ens.Member(l).Tree() {
		if id, ok := strings.CutPrefix(path, k.path+"/"); ok && n.Mode == zktest.Ephemeral {
			there[id] = string(n.Data)
		}
	}
	for i, c := range w.present() {
		j := k.clients[c]
		if j == nil || j.member == nil || c.Err() != nil || j.leaving {
			continue
		}
		members, current := j.member.Members()
		shown := map[string]string{}
		for _, m := range members {
			shown[m.ID] = string(m.Data)
		}
		j.mu.Lock()
		if !current || !maps.Equal(shown, there) || !j.current || !maps.Equal(j.shown, there) {
			w.violate("group: client %d shows %v (%t) at rest, and has followed to %v (%t); there is %v", i, shown, current,
				j.shown, j.current, there)
		}
		j.mu.Unlock()
		if j.member.Status().State != node.There {
			w.violate("group: client %d is no member at rest: %v", i, j.member.Status())
		}
	}
	for _, j := range k.clients {
		if j.member == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(background, w.plan.patience())
		if err := j.member.Leave(ctx); err != nil && !isErr(err, framework.ErrClosed) {
			w.violate("group: %s is not left: %v", j.member.ID(), err)
		}
		cancel()
		<-j.closed
	}
	w.empty(k.path)
}
