package zktest

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
)

// Ensemble is a group of servers with one ordered log. A leader orders the writes and commits each as soon as a
// majority has it. Every member applies the committed writes, and serves reads from the state that it has applied.
// Each member is a [Server], with its own address, faults, counters and trace.
//
// Members are numbered from 0. The methods of an Ensemble are safe for concurrent use.
type Ensemble struct {
	cfg     *Config   // a pointer, as in Server
	members []*Server // immutable
	quit    chan struct{}
	wake    chan struct{}
	wg      sync.WaitGroup

	mu      *sync.Mutex // the members' lock
	closed  bool
	running bool // run is being executed
	links   [][]*memberLink
	hosts   []*Host
	delay   time.Duration
	epoch   int64
	electAt time.Time // zero: no member can be elected, or follow a leader
	next    time.Time // when clock calls run again; zero: only when it is woken

	applied func(member int, e *logEntry) // for tests: an entry has been applied
	copied  func(member, from int)        // for tests: a member has taken over another's state
}

// NewEnsemble starts an ensemble of size members; the last member leads. With Config.Listen each member also has a
// TCP listener: the first at that address, the others at the next ports, or all at free ports if the port is 0. The
// data of /zookeeper/config is the list of the members, or Config.EnsembleConfig if it is set. Close ends the ensemble.
//
// With [Config.Reconfig] clients can change which members vote. Member i has the id i+1. A server runs whether it is
// in the configuration or not. A server without a vote (an observer, or removed from the configuration) still follows
// the leader and serves clients, but does not count for a majority. A removed real server does the same until it is
// stopped, and needs another list of members before it starts again.
//
// A server that becomes an observer, or stops being one, first drops its leader and its clients. When the
// leader is removed, or becomes an observer, all members drop their clients, and another leader is elected.
// Ids without a server can also join: they count for the size of a majority, and never vote. A changed client address
// only appears in the configuration.
func NewEnsemble(size int, cfg Config) (*Ensemble, error) {
	if size < 1 || size > maxMembers {
		return nil, configError("%d members: between 1 and %d are possible", size, maxMembers)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Ensemble{
		cfg: &cfg, delay: cfg.PeerDelay, mu: new(sync.Mutex),
		quit: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	for i := range size {
		s := newServer(cfg, e.mu, int64(i+1))
		s.member = &ensembleMember{e: e, s: s, index: i, lag: cfg.Lag}
		e.members = append(e.members, s)
		if cfg.Listen != "" {
			if err := s.openListener(portAfter(cfg.Listen, i)); err != nil {
				e.Close()
				return nil, err
			}
		}
		row := make([]*memberLink, size)
		for j := range row {
			row[j] = &memberLink{}
		}
		e.links = append(e.links, row)
	}
	for i, row := range e.links {
		for j, l := range row {
			l.back = e.links[j][i]
		}
	}
	first, err := e.foundingMembership()
	if err != nil {
		e.Close()
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var voters []*ensembleMember
	for _, s := range e.members {
		if s.cfg.EnsembleConfig == "" {
			s.cfg.EnsembleConfig = first.String()
		}
		s.clearState()
		s.member.config = first
		voters = append(voters, s.member)
	}
	voters[size-1].becomeLeader(voters[:size-1])
	for _, s := range e.members {
		s.start()
	}
	e.wg.Go(e.timerLoop)
	return e, nil
}

// portAfter returns the address with the n-th next port. Port 0 stays 0, and an address without a port number
// stays unchanged.
func portAfter(addr string, n int) string {
	host, port, err := net.SplitHostPort(addr)
	if number, bad := strconv.Atoi(port); err == nil && bad == nil && number != 0 {
		return net.JoinHostPort(host, strconv.Itoa(number+n))
	}
	return addr
}

// maxMembers is the largest number of servers in an ensemble.
const maxMembers = 9

// foundingMembership returns the first configuration: all members vote. Its version is 0, or with Config.Reconfig
// the first epoch, as a real first leader sets it. Members that listen may all have the same host, so their ports
// for each other differ: a member with the address of another member could not join again.
func (e *Ensemble) foundingMembership() (*membership, error) {
	c := &membership{}
	if e.cfg.Reconfig {
		c.version = 1 << 32
	}
	for i, s := range e.members {
		addr, n := s.listenAddr, i
		if addr == "" {
			addr, n = s.name, 0
		}
		host, _, _ := net.SplitHostPort(addr)
		peers := fmt.Sprintf("%s:%d", net.JoinHostPort(host, strconv.Itoa(2888+n)), 3888+n)
		line, bad := parseMember(int64(i+1), peers+":participant;"+addr)
		if bad != ok {
			return nil, fmt.Errorf("zktest: member %d at %s: %w", i, addr, bad)
		}
		c.withMember(line)
	}
	return c, nil
}

// Close closes all members. All their goroutines have ended when it returns.
func (e *Ensemble) Close() {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if first {
		close(e.quit)
	}
	for _, s := range e.members {
		s.Close()
	}
	e.wg.Wait()
}

// Size returns the number of members.
func (e *Ensemble) Size() int { return len(e.members) }

// Member returns member i, counted from 0. Its methods work on this member alone: [Server.Stop],
// [Server.Start], [Server.Pause], [Server.Wipe], [Server.Inject], [Server.BlackHole], [Server.Counts], … .
// Reads like [Server.Tree] show the state that it has applied; direct writes like [Server.Create] go to the leader,
// whichever member is used, and fail with [ErrConnectionLoss] when no leader can commit them.
func (e *Ensemble) Member(i int) *Server { return e.members[i] }

// Members returns all members.
func (e *Ensemble) Members() []*Server { return slices.Clone(e.members) }

// Leader returns the number of the leader, and -1 if there is none. While a former leader still leads, it returns the
// number of the newer one. A paused leader does not count.
func (e *Ensemble) Leader() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.leadingServer(); l != nil {
		return l.member.index
	}
	return -1
}

func (e *Ensemble) leadingServer() *Server {
	var best *Server
	for _, s := range e.members {
		if m := s.member; m.role == leading && !m.retired && m.isRunning() && (best == nil || m.epoch > best.member.epoch) {
			best = s
		}
	}
	return best
}

// AwaitSettled waits until there is a leader, and every running member follows it and has applied all
// committed writes. If ctx ends before that, it returns the error of ctx.
func (e *Ensemble) AwaitSettled(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if e.isSettled() {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("zktest: no leader that every running member follows and is level with: %w",
				ctx.Err())
		}
	}
}

func (e *Ensemble) isSettled() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.leadingServer()
	if l == nil || len(l.member.log) > 0 {
		return false
	}
	for _, s := range e.members {
		m := s.member
		if s.stopped || s.closed || s == l {
			continue
		}
		follows := m.role == following && m.boss.carriesPings() && m.boss.leader == l.member
		if !follows || s.zxid != l.zxid || len(m.queue) > 0 {
			return false
		}
	}
	return true
}

// ConnectString lists the members' addresses, separated by commas.
func (e *Ensemble) ConnectString() string { return strings.Join(e.Addrs(), ",") }

// Addrs lists the members' addresses.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.members))
	for i, s := range e.members {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Dial connects in memory to the member with the address addr; see [Server.Dial]. If no member has that
// address, Dial returns an error.
func (e *Ensemble) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s, err := e.memberAt(network, addr)
	if err != nil {
		return nil, err
	}
	return s.Dial(ctx, network, addr)
}

// memberAt returns the member with the address.
func (e *Ensemble) memberAt(network, addr string) (*Server, error) {
	for _, s := range e.members {
		if addr == s.name || addr == s.Addr() {
			return s, nil
		}
	}
	return nil, dialError(network, &net.AddrError{Err: "no member of the ensemble", Addr: addr})
}

// Dialer returns Dial in the form that go-zookeeper's WithDialer wants.
func (e *Ensemble) Dialer() func(network, addr string, timeout time.Duration) (net.Conn, error) {
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return e.Dial(ctx, network, addr)
	}
}

// Counts adds up the members' counts.
func (e *Ensemble) Counts() map[Op]int {
	sum := map[Op]int{}
	for _, s := range e.members {
		for op, n := range s.Counts() {
			sum[op] += n
		}
	}
	return sum
}

// Trace returns the last requests, events and incidents of all members in the order of time, each with its
// member's number first.
func (e *Ensemble) Trace() []string {
	type line struct {
		at     time.Duration
		member int
		text   string
	}
	var lines []line
	e.mu.Lock()
	for i, s := range e.members {
		for _, entry := range s.trace.oldestFirst() {
			entry.at += s.started.Sub(e.members[0].started)
			lines = append(lines, line{entry.at, i, entry.String()})
		}
	}
	e.mu.Unlock()
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = fmt.Sprintf("[%d] %s", l.member, l.text)
	}
	return texts
}

// timerLoop calls run when there is something to do at a later time.
func (e *Ensemble) timerLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		e.mu.Lock()
		e.runDue()
		next := e.next
		e.mu.Unlock()
		timer.Stop()
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-due:
		case <-e.wake:
		case <-e.quit:
			return
		}
	}
}

// runDue delivers messages, applies entries and handles timeouts, until none is due. The lock is held.
func (e *Ensemble) runDue() {
	if e.running || e.closed {
		return
	}
	e.running = true
	defer func() { e.running = false }()
	now := time.Now()
	for again := true; again; {
		again = e.deliverMessages(now)
		for _, s := range e.members {
			again = s.member.applyDueEntries(now) || again
		}
		if again {
			continue // messages come before timeouts
		}
		for _, s := range e.members {
			s.member.adjustPingTimer(now)
		}
		for _, s := range e.members {
			again = s.member.runTimers(now) || again
		}
		again = e.runElections(now) || again
	}
	next := e.nextDueTime()
	sooner := !next.IsZero() && (e.next.IsZero() || next.Before(e.next))
	e.next = next
	if sooner {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// awaitCommit waits until an entry is committed, for SyncLimit ticks at most, and reports whether it is. It
// releases the lock while it waits.
func (e *Ensemble) awaitCommit(entry *logEntry) bool {
	e.runDue()
	if entry.committed {
		return true
	}
	committed := make(chan struct{})
	entry.syncs = append(entry.syncs, func() { close(committed) })
	e.mu.Unlock()
	timer := time.NewTimer(e.members[0].member.silenceLimit())
	defer timer.Stop()
	select {
	case <-committed:
	case <-timer.C:
	case <-e.quit:
	}
	e.mu.Lock()
	return entry.committed
}

// deliverMessages delivers the messages that can arrive, and reports whether there were any.
func (e *Ensemble) deliverMessages(now time.Time) bool {
	any := false
	for from := range e.links {
		for to, l := range e.links[from] {
			for len(l.queue) > 0 && !l.isBlocked() && !e.members[to].paused && !l.queue[0].at.After(now) {
				m := l.queue[0]
				if l.queue = l.queue[1:]; len(l.queue) == 0 {
					l.queue = nil
				}
				m.deliver()
				any = true
			}
		}
	}
	return any
}

// nextDueTime returns the time of the next message, entry or timeout; zero if there is none.
func (e *Ensemble) nextDueTime() time.Time {
	next := e.electAt
	at := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for i, s := range e.members {
		at(s.member.nextTimeout())
		if len(s.member.queue) > 0 && !s.paused {
			at(s.member.queue[0].at)
		}
		for j, l := range e.links[i] {
			if len(l.queue) > 0 && !l.isBlocked() && !e.members[j].paused {
				at(l.queue[0].at)
			}
		}
	}
	return next
}
