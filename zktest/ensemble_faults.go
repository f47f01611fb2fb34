package zktest

import (
	"fmt"
	"time"
)

// The network between the members. Messages on a cut link are sent again, as by TCP: they arrive when the link is
// healed, unless one end has closed its side by then. A follower stops following its leader, and a leader drops a
// follower, after SyncLimit ticks without a message; until then both still serve clients.

// Partition cuts the links between a member and the given others, or all others if none are given, in both
// directions. No end is notified. Clients still reach the member.
func (e *Ensemble) Partition(member int, others ...int) {
	e.mu.Lock()
	defer e.unlock()
	if len(others) == 0 {
		for i := range e.members {
			others = append(others, i)
		}
	}
	for _, other := range others {
		if other != member {
			e.cutDirection(member, other)
			e.cutDirection(other, member)
		}
	}
}

// CutLink cuts one direction: no message of member from arrives at member to, and no acknowledgement of TCP. So the
// other direction soon stops as well: its messages arrive only if they are sent within 200 ms after the first without
// an acknowledgement.
func (e *Ensemble) CutLink(from, to int) {
	e.mu.Lock()
	defer e.unlock()
	e.cutDirection(from, to)
}

func (e *Ensemble) cutDirection(from, to int) {
	e.links[from][to].cut = true
	e.traceText(from, fmt.Sprintf("cut: nothing of member %d arrives at member %d", from, to))
}

// HealLink opens one direction again.
func (e *Ensemble) HealLink(from, to int) {
	e.mu.Lock()
	defer e.unlock()
	e.links[from][to].healDirection()
	e.traceText(from, fmt.Sprintf("healed: from member %d to member %d", from, to))
}

// HealPeers opens all links between members.
func (e *Ensemble) HealPeers() {
	e.mu.Lock()
	defer e.unlock()
	for from := range e.links {
		for _, l := range e.links[from] {
			l.healDirection()
		}
	}
	e.traceText(0, "all links healed")
}

// ResetPeers breaks a member's connection to its leader, or a leader's connections to its followers, as a reset does:
// this member notices it immediately, the other end when the reset reaches it over an open link. After Partition of a
// leader, ResetPeers of its followers makes them elect another leader without waiting for SyncLimit, while the old
// leader still leads.
func (e *Ensemble) ResetPeers(member int) {
	e.mu.Lock()
	defer e.unlock()
	m := e.members[member].member
	if b := m.boss; b != nil {
		b.closeFollowerSide("connection reset", true)
	}
	for _, b := range m.crew {
		b.closeLeaderSide(true)
	}
}

// SetLag sets how much later than the commit a member, as a follower, applies a write; see Config.Lag. It holds for
// writes committed from now on. A leader has no lag.
func (e *Ensemble) SetLag(member int, d time.Duration) {
	e.mu.Lock()
	defer e.unlock()
	e.members[member].member.lag = max(d, 0)
}

// SetPeerDelay sets how long messages between members take from now on; see Config.PeerDelay. Their order is
// kept.
func (e *Ensemble) SetPeerDelay(d time.Duration) {
	e.mu.Lock()
	defer e.unlock()
	e.delay = max(d, 0)
}

// Heal undoes the faults that can be undone: cut links between members, pauses, stops, black holes, delays,
// hosts that are down, clock skews, lags beyond the configured one. Injections stay. It returns an error if a TCP
// listener cannot be opened again.
func (e *Ensemble) Heal() error {
	e.HealPeers()
	e.SetPeerDelay(e.cfg.PeerDelay)
	e.mu.Lock()
	hosts := e.hosts
	e.mu.Unlock()
	for _, h := range hosts {
		h.Heal()
	}
	var failed error
	for i, s := range e.members {
		e.SetLag(i, e.cfg.Lag)
		s.SkewClock(0)
		s.Heal()
		s.Resume()
		if err := s.Start(); err != nil {
			failed = err
		}
	}
	return failed
}

// Expire ends a session now; see [Server.Expire].
func (e *Ensemble) Expire(session int64) { e.members[0].Expire(session) }

// Cut closes a session's connections to all members, or all connections when session is 0.
func (e *Ensemble) Cut(session int64) {
	for _, s := range e.members {
		s.Cut(session)
	}
}

func (e *Ensemble) unlock() {
	e.runDue()
	e.mu.Unlock()
}

func (e *Ensemble) traceText(member int, text string) {
	e.members[member].trace.addEntry(traceEntry{kind: traceNote, note: text})
}
