package chaos

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/zktest"
)

// Removal is what was taken from a process without its doing: somebody deleted a node or ended a session, or
// a server's clock jumped ahead.
type Removal struct {
	At   time.Duration
	Sure bool // it has happened; else it may have, or not
	Head bool // no node was ahead of it in its directory: its owner may have had the right
	jump bool // a clock jumped: the session may have ended by that, but not later
}

// operator does to servers what operators do, and remembers it.
type operator struct {
	w       *World
	most    time.Duration   // that the servers grant, unless a fault says otherwise
	version int             // of the configuration, as it was changed last
	skews   []time.Duration // of the members' clocks; used by the driver only
	still   []hangs         // of the members

	mu       sync.Mutex
	sessions map[int64]Removal
	nodes    map[string]Removal
}

func newOperator(w *World, server zktest.Config) *operator {
	return &operator{
		w:        w,
		most:     cmp.Or(server.MaxSessionTimeout, 20*server.TickTime),
		skews:    make([]time.Duration, w.ens.Size()),
		still:    make([]hangs, w.ens.Size()),
		sessions: map[int64]Removal{},
		nodes:    map[string]Removal{},
	}
}

// Removed says whether, and when, a session or one of its nodes was removed by a fault ([Expire],
// [DeleteNode], [SkewServer]). Its owner, who cannot know that at once, knows it after [World.Notice].
func (w *World) Removed(session int64, nodes ...string) (Removal, bool) {
	w.ops.mu.Lock()
	defer w.ops.mu.Unlock()
	for _, node := range nodes {
		if r, ok := w.ops.nodes[node]; ok {
			return r, true
		}
	}
	r, ok := w.ops.sessions[session]
	return r, ok && !(r.jump && w.Elapsed()-r.At > w.Notice())
}

// MayHaveEnded says whether a session was ever ended by a fault, or may have been.
func (w *World) MayHaveEnded(session int64) bool {
	w.ops.mu.Lock()
	defer w.ops.mu.Unlock()
	_, ok := w.ops.sessions[session]
	return ok
}

// Notice is the time after which the owner of what a fault has removed must know that. It may learn of it
// only on its next connection, and until then be connected to a server that does not know it either. A
// connection that ends with the request that arms its watches again does not count: it keeps the session, and
// tells nothing.
func (w *World) Notice() time.Duration {
	return w.plan.SessionTimeout + 5*time.Second + w.plan.stale() + w.plan.unwatched()
}

// expire ends a session early, if there is a server that can.
func (o *operator) expire(id int64) {
	l := o.w.ens.Leader()
	if l < 0 {
		return
	}
	lives := func() bool {
		return slices.ContainsFunc(
			o.w.ens.Member(l).Sessions(),
			func(s zktest.SessionInfo) bool { return s.ID == id },
		)
	}
	if !lives() {
		return
	}
	o.ends(id, false) // until it is certain
	o.w.ens.Expire(id)
	if !lives() {
		o.ends(id, true)
	}
}

// ends notes that a session is ended, or may be.
func (o *operator) ends(session int64, sure bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r, before := o.sessions[session]; !before || !r.Sure {
		o.sessions[session] = Removal{At: o.w.Elapsed(), Sure: sure, Head: true}
	}
}

// jump notes that a server's clock jumps: any session may end early, but need not.
func (o *operator) jump() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.w.ens.Members() {
		for _, s := range m.Sessions() {
			if r, before := o.sessions[s.ID]; !before || r.jump {
				o.sessions[s.ID] = Removal{At: o.w.Elapsed(), Head: true, jump: true}
			}
		}
	}
}

// delete deletes ephemeral nodes, in the order of their numbers: of n nodes those from first to last, from
// the end.
func (o *operator) delete(which func(n int) (first, last int)) {
	l := o.w.ens.Leader()
	if l < 0 {
		return
	}
	var paths []string
	for path, node := range o.w.ens.Member(l).Tree() {
		if node.Mode == zktest.Ephemeral {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return
	}
	slices.Sort(paths) // names may hold random identifiers: their numbers decide
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	first, last := which(len(paths))
	for _, path := range slices.Backward(paths[max(first, 0):min(last+1, len(paths))]) {
		sure := o.deletes(path)
		err := o.w.ens.Member(l).Delete(path)
		o.w.tell("faults", "somebody deletes %s: %v", path, err)
		if err == nil {
			sure()
		}
	}
}

// deletes notes that somebody tries to delete a node, and, when the returned function is called, that it is
// deleted.
func (o *operator) deletes(path string) (sure func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nodes[path] = Removal{At: o.w.Elapsed(), Head: true}
	return func() {
		// A node that is still ahead of it was ahead of it then.
		children, _ := o.w.ens.Member(max(o.w.ens.Leader(), 0)).Children(dirOf(path))
		ahead := slices.ContainsFunc(children, func(name string) bool {
			return number(name) >= 0 && number(name) < number(path)
		})
		o.mu.Lock()
		defer o.mu.Unlock()
		o.nodes[path] = Removal{At: o.w.Elapsed(), Sure: true, Head: !ahead}
	}
}

func dirOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 1)] }

// number is a sequential node's number, -1 if it has none.
func number(path string) int {
	n, err := strconv.Atoi(path[max(len(path)-10, 0):])
	if err != nil || len(path) < 10 {
		return -1
	}
	return n
}

// inject makes an operator's fault happen.
func (o *operator) inject(f Fault) (undo func()) {
	e := o.w.ens
	switch f.Kind {
	case Shrink:
		o.limit(o.w.plan.SessionTimeout / 2)
		if f.All {
			e.Cut(0)
		}
		return func() { o.limit(o.most) }
	case Grow:
		o.configure(func(int) bool { return true })
		if f.All {
			// A member that does not know it yet would deny it.
			time.Sleep(o.w.plan.Lag + 4*o.w.plan.PeerDelay + 10*time.Millisecond)
			e.Cut(0)
		}
	case ReplaceMember:
		return o.replace(f.Member % e.Size())
	case SkewServer:
		o.jump()
		o.skews[f.Member%e.Size()] += f.Delay // and never back: sessions would live for ever
		e.Member(f.Member % e.Size()).SkewClock(o.skews[f.Member%e.Size()])
	case DeleteNode:
		if f.All { // all clients learn of all of it at once, on the next connection
			e.Cut(0)
			o.delete(func(int) (first, last int) { return 0, 1 + f.After%2 })
			break
		}
		o.delete(func(n int) (first, last int) { return f.Times%n - f.After, f.Times % n })
	default:
		o.w.Violate("plan", "there is no kind of fault %q", f.Kind)
	}
	return nil
}

func (o *operator) limit(most time.Duration) {
	for _, m := range o.w.ens.Members() {
		m.LimitSessions(most)
	}
}

// configure says in the ensemble's configuration which members there are.
func (o *operator) configure(is func(member int) bool) {
	var config strings.Builder
	for i, addr := range o.w.ens.Addrs() {
		if is(i) {
			host, _, _ := net.SplitHostPort(addr)
			fmt.Fprintf(&config, "server.%d=%s:2888:3888:participant;%s\n", i+1, host, addr)
		}
	}
	o.version++
	fmt.Fprintf(&config, "version=%x", o.version)
	_ = o.w.ens.Member(0).Set("/zookeeper/config", []byte(config.String())) // without a leader it stays
}

// replace takes a member out of the ensemble. Another with its address and no data comes in its place.
func (o *operator) replace(member int) (undo func()) {
	m := o.w.ens.Member(member)
	o.configure(func(i int) bool { return i != member })
	m.Stop()
	return func() {
		if o.whole(member) {
			m.Wipe()
		}
		o.w.starts(m)
		o.configure(func(int) bool { return true })
	}
}

// whole says whether all other members run and have what is committed, so that nothing is lost with this one.
func (o *operator) whole(but int) bool {
	leader := o.w.ens.Leader()
	if leader < 0 || leader == but {
		return false
	}
	for i, m := range o.w.ens.Members() {
		if i != but && m.Zxid() != o.w.ens.Member(leader).Zxid() {
			return false
		}
	}
	return true
}

// wipe deletes a member's data. On a majority that would lose what is committed, which no client can repair;
// so all members are whole before and after.
func (o *operator) wipe(member int) {
	o.heal()
	for _, s := range o.w.slots { // what keeps processes from the servers is not the servers' matter
		s.mu.Lock()
		s.setBlocked()
		s.mu.Unlock()
	}
	settled := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return o.w.ens.AwaitSettled(ctx) == nil
	}
	if !settled() {
		return
	}
	o.w.ens.Member(member).Wipe()
	o.w.starts(o.w.ens.Member(member))
	settled()
}

// heal undoes what faults have done to servers and networks, but for their clocks.
func (o *operator) heal() {
	for i := range o.still {
		o.still[i].resumed(time.Now())
	}
	if err := o.w.ens.Heal(); err != nil {
		o.w.Violate("servers", "do not heal: %v", err)
	}
	for i, m := range o.w.ens.Members() {
		if o.skews[i] != 0 { // a clock that goes back keeps sessions alive, and their nodes
			o.jump()
			m.SkewClock(o.skews[i])
		}
	}
}

// hangs are when a member was paused. It counts no time meanwhile, and may go on afterwards as if there
// had been none.
type hangs struct {
	mu    sync.Mutex
	begun time.Time // zero: it runs
	spans []span
}

type span struct{ from, to time.Time }

// pause pauses a member; resume lets it go on.
func (o *operator) pause(member int) (resume func()) {
	m, s := o.w.ens.Member(member), &o.still[member]
	m.Pause()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	return func() {
		s.resumed(time.Now())
		m.Resume()
	}
}

// resumed notes that the member runs. If pauses overlap, the member goes on when the first ends, or when
// everything is healed.
func (s *hangs) resumed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.IsZero() {
		s.spans, s.begun = append(s.spans, span{s.begun, now}), time.Time{}
	}
}

// Ran is how long a server was not paused between two times since the run began. If each server has run for
// longer than it may be out of date, all of them show at the second time what was true at the first.
func (w *World) Ran(member int, from, to time.Duration) time.Duration {
	return w.ops.still[member].ran(w.began.Add(from), w.began.Add(to))
}

func (s *hangs) ran(from, to time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := s.spans
	if !s.begun.IsZero() {
		spans = append(slices.Clone(spans), span{s.begun, to})
	}
	return running(spans, from, to)
}

// running is the time between two instants without the spans, which do not overlap.
func running(spans []span, from, to time.Time) time.Duration {
	d := to.Sub(from)
	for _, s := range spans {
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		d -= max(0, end.Sub(begin))
	}
	return d
}
