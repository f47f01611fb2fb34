package zktest

import (
	"cmp"
	"slices"
	"time"
)

// requiredMajorities returns the configurations whose majorities a leader needs: the committed one, and the one in
// its log that is not committed yet, if any.
func (m *ensembleMember) requiredMajorities() []*membership {
	if next := m.pendingMembership(); next != nil {
		return []*membership{m.config, next}
	}
	return []*membership{m.config}
}

// pendingMembership returns the newest configuration in the member's log that the member has not learned to be
// committed, or nil.
func (m *ensembleMember) pendingMembership() *membership {
	for _, e := range slices.Backward(m.log) {
		if e.config == m.config {
			break
		}
		if e.config != nil {
			return e.config
		}
	}
	return nil
}

// hasAllMajorities reports whether a set of members has a majority in each of the configurations.
func hasAllMajorities(quorums []*membership, set uint) bool {
	return !slices.ContainsFunc(quorums, func(c *membership) bool { return !c.hasMajority(set) })
}

// mayLead reports whether the member can lead. If a configuration in its log that is not committed yet gives it no
// vote, it leads only to commit that configuration.
func (m *ensembleMember) mayLead() bool { return m.config.hasVoter(m) }

// followerSet returns the set of a leader and its followers.
func (m *ensembleMember) followerSet() uint {
	set := m.indexBit()
	for _, b := range m.crew {
		set |= b.follower.indexBit()
	}
	return set
}

// adoptMembership sets a follower's committed configuration, unless next is nil. The follower leaves its leader if
// next makes it an observer, or no longer one, or gives the leader no vote.
func (m *ensembleMember) adoptMembership(next *membership) {
	if next == nil {
		return
	}
	before := m.config
	m.config = next
	if before.hasObserver(m) == next.hasObserver(m) && next.hasVoter(m.boss.leader) {
		return
	}
	m.applyDueEntries(time.Now())
	for c := range m.s.conns {
		c.closeConn(true) // after the replies that are queued
	}
	m.boss.closeFollowerSide("another part in the ensemble, or another leader, by a reconfiguration", true)
}

// showConfig writes the configuration into the tree, as a leader does before it serves.
func (m *ensembleMember) showConfig() {
	if !m.s.cfg.Reconfig {
		return
	}
	n := m.s.tree.lookup(configPath)
	n.data, n.version = []byte(m.config.String()), configVersion
	n.mzxid, n.mtime = m.config.version, time.Now().UnixMilli()
}

// linksAreOpen reports whether the links between two members are open in both directions.
func (e *Ensemble) linksAreOpen(a, b *ensembleMember) bool {
	return a == b || !e.links[a.index][b.index].cut && !e.links[b.index][a.index].cut
}

// isRunning reports whether the member runs and is not paused.
func (m *ensembleMember) isRunning() bool { return !m.s.stopped && !m.s.closed && !m.s.paused }

// silenceLimit returns the time that a leader and its follower stay connected without a message.
func (m *ensembleMember) silenceLimit() time.Duration {
	return time.Duration(m.s.cfg.SyncLimit) * m.s.cfg.TickTime
}

// resignRole ends a member's role as follower or leader: clients lose their connections, and it looks for a
// leader.
func (m *ensembleMember) resignRole(why string) {
	if m.role == looking && m.boss == nil {
		return
	}
	m.s.trace.addEntry(traceEntry{kind: traceNote, note: "stops serving: " + why})
	m.role, m.retired = looking, false
	for c := range m.s.conns {
		c.closeConn(false)
	}
	if b := m.boss; b != nil {
		m.boss = nil
		b.closeFollowerSide(why, true)
	}
	for _, b := range m.crew {
		b.closeLeaderSide(true)
	}
	entries := make([]*logEntry, 0, len(m.queue)+len(m.log))
	for _, a := range m.queue {
		if a.entry != nil {
			entries = append(entries, a.entry)
		}
	}
	m.log, m.queue = append(entries, m.log...), nil
	m.crew, m.ahead, m.moved, m.nextTick = nil, nil, nil, time.Time{}
	for id, ses := range m.s.sessions {
		ses.owner, ses.closing = nil, false
		if ses.local {
			delete(m.s.sessions, id)
		}
	}
	m.searchLeader()
}

// searchLeader begins the search for a leader.
func (m *ensembleMember) searchLeader() {
	m.role, m.readOnlyAt = looking, time.Time{}
	if m.s.cfg.ReadOnlyMode {
		m.readOnlyAt = time.Now().Add(max(2*time.Second, m.s.cfg.TickTime))
	}
}

// becomeLeader makes the member the leader of the members that voted for it. All entries in its log become
// committed, even if the last leader had not committed them. If one of them is a configuration that gives the
// member no vote, it steps down as soon as the others have it.
func (m *ensembleMember) becomeLeader(voters []*ensembleMember) {
	m.resignRole("a leader is found") // read-only clients are disconnected
	m.e.epoch++
	m.role, m.epoch = leading, m.e.epoch
	m.readOnlyAt = time.Time{}
	m.ahead = map[string]*futureNode{}
	log := m.log
	m.log = nil
	for _, e := range log {
		e.committed = true
		if e.config != nil {
			m.config = e.config
		}
		m.applyEntry(e)
	}
	m.showConfig()
	m.s.zxid = m.epoch << 32
	m.s.trace.addEntry(traceEntry{kind: traceNote, zxid: m.s.zxid, note: "leads"})
	for _, ses := range m.s.sessions {
		m.s.touchSession(ses, ses.timeout)
	}
	m.s.wakeExpiry()
	m.s.wakeReaper()
	for _, f := range voters {
		f.joinLeader(m)
	}
	if !m.mayLead() {
		m.resignRole("the configuration that it had to commit wants another leader")
	}
}

// joinLeader joins a leader and takes over its state.
func (m *ensembleMember) joinLeader(l *ensembleMember) {
	m.resignRole("a leader is found")
	m.role, m.epoch, m.readOnlyAt = following, l.epoch, time.Time{}
	m.moved = map[int64]int64{}
	m.s.tree, m.s.zxid = l.s.tree.clone(), l.s.zxid
	m.config = l.config
	m.s.sessions = make(map[int64]*sessionRecord, len(l.s.sessions))
	for id, ses := range l.s.sessions {
		m.s.sessions[id] = &sessionRecord{id: id, timeout: ses.timeout}
	}
	if m.e.copied != nil {
		m.e.copied(m.index, l.index)
	}
	m.s.trace.addEntry(traceEntry{kind: traceNote, zxid: m.s.zxid, note: "follows " + l.s.name})
	b := &followerConn{leader: l, follower: m, leaderOpen: true, followerOpen: true,
		lastAtLeader: time.Now(), lastAtFollower: time.Now()}
	m.boss = b
	l.crew = append(l.crew, b)
	slices.SortFunc(l.crew, func(a, b *followerConn) int { return cmp.Compare(a.follower.index, b.follower.index) })
	m.log = slices.Clone(l.log)
	for _, e := range m.log {
		b.acknowledgeEntry(e)
	}
}

// hasQuorum reports whether the followers that a leader is connected to are enough. The leader may not have noticed yet
// that a connection is lost.
func (m *ensembleMember) hasQuorum() bool {
	return hasAllMajorities(m.requiredMajorities(), m.followerSet())
}

// needsPings reports whether anything depends on a leader's pings.
func (m *ensembleMember) needsPings() bool {
	broken := func(b *followerConn) bool { return !b.carriesPings() }
	return len(m.s.sessions) > 0 || !m.hasQuorum() || slices.ContainsFunc(m.crew, broken)
}

// runTimers handles the member's timeouts that are due, and reports whether there were any.
func (m *ensembleMember) runTimers(now time.Time) bool {
	switch m.role {
	case leading:
		return m.runLeaderTimers(now)
	case following:
		if m.isRunning() && !m.boss.carriesPings() && !now.Before(m.boss.lastAtFollower.Add(m.silenceLimit())) {
			m.boss.closeFollowerSide("nothing heard of the leader", true)
			return true
		}
	case looking:
		if m.isRunning() && !m.readOnlyAt.IsZero() && !now.Before(m.readOnlyAt) {
			m.role, m.readOnlyAt = onlyReads, time.Time{}
			m.s.trace.addEntry(traceEntry{kind: traceNote, note: "serves reads only"})
			return true
		}
	}
	return false
}

// adjustPingTimer starts or stops the timer of a leader's pings, even while the leader is paused.
func (m *ensembleMember) adjustPingTimer(now time.Time) {
	switch {
	case m.role != leading:
	case !m.needsPings():
		m.nextTick = time.Time{}
	case m.nextTick.IsZero():
		m.nextTick = now.Add(m.s.cfg.TickTime / 2)
		for _, b := range m.crew { // a real leader would have pinged all the time
			b.lastAtLeader, b.lastAtFollower = now, now
		}
	}
}

func (m *ensembleMember) runLeaderTimers(now time.Time) bool {
	if m.nextTick.IsZero() || !m.isRunning() || now.Before(m.nextTick) {
		return false
	}
	m.nextTick = now.Add(m.s.cfg.TickTime / 2)
	m.odd = !m.odd
	for _, b := range m.crew {
		if now.Sub(b.lastAtLeader) > m.silenceLimit() {
			b.closeLeaderSide(true)
			continue
		}
		b.pingFollower()
	}
	if m.odd && !m.hasQuorum() {
		m.resignRole("not enough followers")
	}
	return true
}

// nextTimeout returns the time of the member's next timeout; zero if there is none.
func (m *ensembleMember) nextTimeout() time.Time {
	switch {
	case !m.isRunning():
		return time.Time{}
	case m.role == leading:
		return m.nextTick
	case m.role == following && !m.boss.carriesPings():
		return m.boss.lastAtFollower.Add(m.silenceLimit())
	case m.role == looking:
		return m.readOnlyAt
	}
	return time.Time{}
}

// searchingMembers lists the members that look for a leader, the newest log first.
func (e *Ensemble) searchingMembers() []*ensembleMember {
	var list []*ensembleMember
	for _, s := range e.members {
		if m := s.member; m.isRunning() && (m.role == looking || m.role == onlyReads) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *ensembleMember) int {
		return cmp.Or(compareLogs(b, a), cmp.Compare(b.index, a.index))
	})
	return list
}

func compareLogs(a, b *ensembleMember) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.lastLogged(), b.lastLogged()))
}

// leaderToJoin returns the newest leader that the member can join, or nil. It skips leaders with an older epoch
// than the member's: they have been replaced.
func (e *Ensemble) leaderToJoin(m *ensembleMember) *ensembleMember {
	var best *ensembleMember
	for _, s := range e.members {
		l := s.member
		reached := l.role == leading && !l.retired && l.isRunning() && e.linksAreOpen(l, m)
		if reached && l.epoch >= m.epoch && (best == nil || l.epoch > best.epoch) {
			best = l
		}
	}
	return best
}

// findElectable returns a member that a majority votes for, if there is any, and the members that will follow it,
// with a vote or without.
func (e *Ensemble) findElectable(list []*ensembleMember) (*ensembleMember, []*ensembleMember) {
	for _, c := range list {
		set := c.indexBit()
		var voters []*ensembleMember
		for _, v := range list {
			if v != c && e.linksAreOpen(v, c) && compareLogs(v, c) <= 0 {
				voters = append(voters, v)
				set |= v.indexBit()
			}
		}
		if c.mayLead() && hasAllMajorities(c.requiredMajorities(), set) {
			return c, voters
		}
	}
	return nil, nil
}

// runElections gives members without a leader a leader, Config.ElectionTime after that became possible: they follow
// a leader that they reach, or else a majority elects one. It reports whether a member has got a leader.
func (e *Ensemble) runElections(now time.Time) bool {
	list := e.searchingMembers()
	if len(list) == 0 {
		e.electAt = time.Time{}
		return false
	}
	c, voters := e.findElectable(list)
	joins := slices.ContainsFunc(list, func(m *ensembleMember) bool { return e.leaderToJoin(m) != nil })
	switch {
	case c == nil && !joins:
		e.electAt = time.Time{}
		return false
	case e.electAt.IsZero():
		e.electAt = now.Add(e.cfg.ElectionTime)
		return false
	case now.Before(e.electAt):
		return false
	}
	e.electAt = time.Time{}
	if !joins {
		c.becomeLeader(voters)
		return true
	}
	for _, m := range list {
		if l := e.leaderToJoin(m); l != nil {
			m.joinLeader(l)
		}
	}
	return true
}
