package chaos

import (
	"github.com/go-curator/curator/zktest"
)

// injectFault starts a fault. The function that it returns, if not nil, undoes it.
func (w *World) injectFault(f Fault) (undo func()) {
	if custom := w.cfg.Custom[f.Kind]; custom != nil {
		return custom(w, f)
	}
	if f.Kind.strikesProcess() {
		if len(w.slots) == 0 {
			return nil
		}
		return w.slots[f.Process%len(w.slots)].injectFault(f)
	}
	e := w.ens
	n := f.Member % e.Size()
	member, other := e.Member(n), f.Other%e.Size()
	switch f.Kind {
	case StopMember:
		return w.stopServer(member)
	case PauseMember:
		return w.ops.pauseMember(n)
	case StopLeader, PauseLeader:
		l := e.Leader()
		if l < 0 {
			return nil
		}
		if f.Kind == StopLeader {
			return w.stopServer(e.Member(l))
		}
		return w.ops.pauseMember(l)
	case Partition:
		others := []int{other}
		for i := range e.Size() {
			if i != n && i != other && (f.After+i)%2 == 0 {
				others = append(others, i)
			}
		}
		e.Partition(n, others...)
		return func() {
			for _, i := range others {
				e.HealLink(n, i)
				e.HealLink(i, n)
			}
		}
	case OneWay:
		e.CutLink(n, other)
		return func() { e.HealLink(n, other) }
	case Reset:
		e.ResetPeers(n)
	case Lag:
		e.SetLag(n, f.Delay)
		return func() { e.SetLag(n, w.plan.Lag) }
	case PeerDelay:
		e.SetPeerDelay(f.Delay)
		return func() { e.SetPeerDelay(w.plan.PeerDelay) }
	case DeafLeader:
		if l := e.Leader(); l >= 0 {
			if l == n {
				n = (n + 1) % e.Size()
			}
			e.CutLink(n, l)
			return func() { e.HealLink(n, l) }
		}
	case WipeMember:
		w.ops.wipeData(n)
	default:
		return w.ops.injectFault(f)
	}
	return nil
}

func (w *World) stopServer(m *zktest.Server) (undo func()) {
	m.Stop()
	return func() { w.startServer(m) }
}

func (w *World) startServer(m *zktest.Server) {
	if err := m.Start(); err != nil {
		w.Violate("servers", "do not start: %v", err)
	}
}

func (s *Replica) injectFault(f Fault) (undo func()) {
	switch f.Kind {
	case Cut:
		s.host.Cut()
	case Silence, Away:
		dir := f.Dir
		if f.Kind == Away {
			dir = zktest.Both
		}
		return s.blockPackets(dir)
	case Stall:
		return s.stallPackets(f.Dir)
	case Ghosts:
		late, back := s.stallPackets(f.Dir), s.isolate()
		return func() {
			back()
			s.w.scheduleStep(f.Delay, late)
		}
	case Expire:
		for _, id := range s.host.Sessions() {
			s.w.ops.expireSession(id)
		}
	case Slow:
		s.host.Delay(f.Delay)
		return func() { s.host.Delay(0) }
	case Strike:
		return s.injectIntoMembers(f)
	case Kill:
		return s.stopProcess(ErrKilled)
	case Restart:
		return s.stopProcess(ErrStopped)
	case PauseProcess:
		return s.pauseProcess()
	case ClockStep:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clock += f.Delay
	}
	return nil
}

// stallPackets keeps back the packets of the present connections in a direction until arrive is called. The client
// may have closed the connections by then.
func (s *Replica) stallPackets(dir zktest.Direction) (arrive func()) {
	sessions := s.host.Sessions()
	each := func(do func(*zktest.Server, int64)) {
		for _, m := range s.w.ens.Members() {
			for _, id := range sessions {
				do(m, id)
			}
		}
	}
	each(func(m *zktest.Server, id int64) { m.BlackHole(id, dir) })
	return func() { each((*zktest.Server).HealSession) }
}

// injectIntoMembers injects the fault into all members, since a session may move. A process without a connection has no
// session that could be selected: then all processes are struck, as with All.
func (s *Replica) injectIntoMembers(f Fault) (undo func()) {
	sessions := s.host.Sessions()
	if !f.All && len(sessions) == 0 {
		s.w.addToStory("faults", "%s has no session now: requests of all processes are struck", s.name)
	}
	if f.All || len(sessions) == 0 {
		sessions = []int64{0}
	}
	var struck []*zktest.Injection
	for _, m := range s.w.ens.Members() {
		for _, id := range sessions {
			struck = append(
				struck,
				m.Inject(
					zktest.Fault{
						Session: id,
						Op:      f.Op,
						Action:  f.Action,
						After:   f.After,
						Delay:   f.Delay,
						Err:     f.Err,
						Times:   f.Times,
					},
				),
			)
		}
	}
	return func() {
		for _, i := range struck {
			i.Remove()
			i.Release()
		}
	}
}
