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

// Removal is a fault that removed a session or a node of a process: the node was deleted, the session was ended, or a
// server's clock jumped ahead.
type Removal struct {
	At   time.Duration
	Sure bool // it has happened; otherwise its outcome is unknown
	Head bool // no node was ahead of it in its directory: its owner may have been a holder
	jump bool // a clock jumped: the session may have ended at that time, but not later
}

// serverOperator makes the changes of operators to servers, and records the removals.
type serverOperator struct {
	w       *World
	most    time.Duration   // largest session timeout, without a fault Shrink
	version int             // of the configuration, after its last change
	skews   []time.Duration // of the members' clocks; used by the driver only
	still   []memberPauses  // of the members: their pauses

	mu       sync.Mutex
	sessions map[int64]Removal
	nodes    map[string]Removal
}

func newOperator(w *World, server zktest.Config) *serverOperator {
	return &serverOperator{
		w:        w,
		most:     cmp.Or(server.MaxSessionTimeout, 20*server.TickTime),
		skews:    make([]time.Duration, w.ens.Size()),
		still:    make([]memberPauses, w.ens.Size()),
		sessions: map[int64]Removal{},
		nodes:    map[string]Removal{},
	}
}

// Removed returns the removal of a session or of one of its nodes by a fault ([Expire], [DeleteNode], [SkewServer]),
// and reports whether there was one. The owner cannot notice the removal immediately, but must have noticed it after
// [World.Notice].
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

// MayHaveEnded reports whether a fault has ended a session, or may have.
func (w *World) MayHaveEnded(session int64) bool {
	w.ops.mu.Lock()
	defer w.ops.mu.Unlock()
	_, ok := w.ops.sessions[session]
	return ok
}

// Notice returns the time after which the owner of a session or node must have noticed its removal by a fault. The
// worst case:
//
//  1. The owner is connected to a server that has lost the others and has not applied the removal.
//  2. It reconnects to another server, and the connection is cut with the request that re-arms its watches: the session
//     is kept, and no event arrives. This repeats as long as faults strike that request.
//  3. Its next connection reports the removal.
func (w *World) Notice() time.Duration {
	return w.plan.SessionTimeout + 5*time.Second + w.plan.staleServing() + w.plan.setWatchesFailing()
}

// expireSession ends a session early, if there is a server that can.
func (o *serverOperator) expireSession(id int64) {
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
	o.recordSessionEnd(id, false) // until it is certain
	o.w.ens.Expire(id)
	if !lives() {
		o.recordSessionEnd(id, true)
	}
}

// recordSessionEnd records that a session is ended, or may be.
func (o *serverOperator) recordSessionEnd(session int64, sure bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r, before := o.sessions[session]; !before || !r.Sure {
		o.sessions[session] = Removal{At: o.w.Elapsed(), Sure: sure, Head: true}
	}
}

// recordClockJump records that a server's clock jumps: any session may end early, but need not.
func (o *serverOperator) recordClockJump() {
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

// deleteNodes deletes some of the ephemeral nodes, sorted by their numbers: which returns the indexes of the first
// and the last of them among n. It begins with the last.
func (o *serverOperator) deleteNodes(which func(n int) (first, last int)) {
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
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(sequenceNumber(a), sequenceNumber(b)) })
	first, last := which(len(paths))
	for _, path := range slices.Backward(paths[max(first, 0):min(last+1, len(paths))]) {
		sure := o.recordDeletion(path)
		err := o.w.ens.Member(l).Delete(path)
		o.w.addToStory("faults", "an operator deletes %s: %v", path, err)
		if err == nil {
			sure()
		}
	}
}

// recordDeletion records that a node may be deleted. The returned function records that it is deleted.
func (o *serverOperator) recordDeletion(path string) (sure func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nodes[path] = Removal{At: o.w.Elapsed(), Head: true}
	return func() {
		// A node ahead of it now was ahead of it at the deletion as well.
		children, _ := o.w.ens.Member(max(o.w.ens.Leader(), 0)).Children(parentPath(path))
		ahead := slices.ContainsFunc(children, func(name string) bool {
			return sequenceNumber(name) >= 0 && sequenceNumber(name) < sequenceNumber(path)
		})
		o.mu.Lock()
		defer o.mu.Unlock()
		o.nodes[path] = Removal{At: o.w.Elapsed(), Sure: true, Head: !ahead}
	}
}

func parentPath(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 1)] }

// sequenceNumber returns a sequential node's number, -1 if it has none.
func sequenceNumber(path string) int {
	n, err := strconv.Atoi(path[max(len(path)-10, 0):])
	if err != nil || len(path) < 10 {
		return -1
	}
	return n
}

// injectFault starts an operator's fault. The function that it returns, if not nil, undoes it.
func (o *serverOperator) injectFault(f Fault) (undo func()) {
	e := o.w.ens
	switch f.Kind {
	case Shrink:
		o.limitSessions(o.w.plan.SessionTimeout / 2)
		if f.All {
			e.Cut(0)
		}
		return func() { o.limitSessions(o.most) }
	case Grow:
		o.writeConfig(func(int) bool { return true })
		if f.All {
			// A member that has not applied the change would serve the old configuration.
			time.Sleep(o.w.plan.Lag + 4*o.w.plan.PeerDelay + 10*time.Millisecond)
			e.Cut(0)
		}
	case ReplaceMember:
		return o.replaceMember(f.Member % e.Size())
	case SkewServer:
		o.recordClockJump()
		o.skews[f.Member%e.Size()] += f.Delay // never back: that would keep sessions alive
		e.Member(f.Member % e.Size()).SkewClock(o.skews[f.Member%e.Size()])
	case DeleteNode:
		if f.All { // all clients notice all deletions together, on the next connection
			e.Cut(0)
			o.deleteNodes(func(int) (first, last int) { return 0, 1 + f.After%2 })
			break
		}
		o.deleteNodes(func(n int) (first, last int) {
			last = (f.Times%n + n) % n // a negative number counts from the end
			return last - f.After, last
		})
	default:
		o.w.Violate("plan", "there is no kind of fault %q", f.Kind)
	}
	return nil
}

func (o *serverOperator) limitSessions(most time.Duration) {
	for _, m := range o.w.ens.Members() {
		m.LimitSessions(most)
	}
}

// writeConfig writes a configuration with the members that is selects.
func (o *serverOperator) writeConfig(is func(member int) bool) {
	var config strings.Builder
	for i, addr := range o.w.ens.Addrs() {
		if is(i) {
			host, _, _ := net.SplitHostPort(addr)
			fmt.Fprintf(&config, "server.%d=%s:2888:3888:participant;%s\n", i+1, host, addr)
		}
	}
	o.version++
	fmt.Fprintf(&config, "version=%x", o.version)
	_ = o.w.ens.Member(0).Set("/zookeeper/config", []byte(config.String())) // no change without a leader
}

// replaceMember stops a member and removes it from the configuration. undo wipes its data, if no write is lost by
// that, starts it and adds it again.
func (o *serverOperator) replaceMember(member int) (undo func()) {
	m := o.w.ens.Member(member)
	o.writeConfig(func(i int) bool { return i != member })
	m.Stop()
	return func() {
		if o.canLoseMember(member) {
			m.Wipe()
		}
		o.w.startServer(m)
		o.writeConfig(func(int) bool { return true })
	}
}

// canLoseMember reports whether there is another leader, and all other members have applied as much as it has: then
// no write is lost with this member's data.
func (o *serverOperator) canLoseMember(but int) bool {
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

// wipeData deletes a member's data. If a majority lost its data, committed writes would be lost, which no client
// can repair; so wipe heals the ensemble first, and waits before and after until all members have all writes.
func (o *serverOperator) wipeData(member int) {
	o.undoFaults()
	for _, s := range o.w.slots { // heal has also opened the networks of the processes: block them again
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
	o.w.startServer(o.w.ens.Member(member))
	settled()
}

// undoFaults undoes the faults of servers and networks, except jumps of clocks.
func (o *serverOperator) undoFaults() {
	for i := range o.still {
		o.still[i].recordResume(time.Now())
	}
	if err := o.w.ens.Heal(); err != nil {
		o.w.Violate("servers", "do not heal: %v", err)
	}
	for i, m := range o.w.ens.Members() {
		if o.skews[i] != 0 { // a clock set back would keep sessions and their nodes alive
			o.recordClockJump()
			m.SkewClock(o.skews[i])
		}
	}
}

// memberPauses are the pauses of a member. It does nothing during a pause, and may continue afterwards as if there
// had been none.
type memberPauses struct {
	mu    sync.Mutex
	begun time.Time // zero: it runs
	spans []timeSpan
}

type timeSpan struct{ from, to time.Time }

// pauseMember pauses a member until resume is called.
func (o *serverOperator) pauseMember(member int) (resume func()) {
	m, s := o.w.ens.Member(member), &o.still[member]
	m.Pause()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	return func() {
		s.recordResume(time.Now())
		m.Resume()
	}
}

// recordResume records that the member runs. If pauses overlap, the member runs when the first of them ends, or
// when the ensemble is healed.
func (s *memberPauses) recordResume(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.IsZero() {
		s.spans, s.begun = append(s.spans, timeSpan{s.begun, now}), time.Time{}
	}
}

// Ran returns the time that a server was not paused between two times since the run began. If each server has run for
// longer than it may be out of date, then at the second time all of them serve the state of the first, or a newer one.
func (w *World) Ran(member int, from, to time.Duration) time.Duration {
	return w.ops.still[member].runningTime(w.began.Add(from), w.began.Add(to))
}

func (s *memberPauses) runningTime(from, to time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := s.spans
	if !s.begun.IsZero() {
		spans = append(slices.Clone(spans), timeSpan{s.begun, to})
	}
	return timeWithout(spans, from, to)
}

// timeWithout returns the time between two instants without the spans, which do not overlap.
func timeWithout(spans []timeSpan, from, to time.Time) time.Duration {
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
