package chaos

import (
	"github.com/go-curator/curator/zktest"
)

// inject makes a fault happen. The function that it returns, if any, undoes it.
func (w *World) inject(f Fault) (undo func()) {
	if custom := w.cfg.Custom[f.Kind]; custom != nil {
		return custom(w, f)
	}
	if f.Kind.ofProcess() {
		if len(w.slots) == 0 {
			return nil
		}
		return w.slots[f.Process%len(w.slots)].inject(f)
	}
	e := w.ens
	n := f.Member % e.Size()
	member, other := e.Member(n), f.Other%e.Size()
	switch f.Kind {
	case StopMember:
		return w.halt(member)
	case PauseMember:
		member.Pause()
		return member.Resume
	case StopLeader, PauseLeader:
		l := e.Leader()
		if l < 0 {
			return nil
		}
		if f.Kind == StopLeader {
			return w.halt(e.Member(l))
		}
		e.Member(l).Pause()
		return e.Member(l).Resume
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
	case Shrink:
		for _, m := range e.Members() {
			m.LimitSessions(w.plan.SessionTimeout / 2)
		}
		return func() {
			for _, m := range e.Members() {
				m.LimitSessions(max(20*w.plan.TickTime, w.plan.SessionTimeout))
			}
		}
	case SkewServer:
		member.SkewClock(w.plan.SessionTimeout)
	default:
		w.Violate("plan", "there is no kind of fault %q", f.Kind)
	}
	return nil
}

func (w *World) halt(m *zktest.Server) (undo func()) {
	m.Stop()
	return func() {
		if err := m.Start(); err != nil {
			w.Violate("servers", "do not start: %v", err)
		}
	}
}

func (s *Replica) inject(f Fault) (undo func()) {
	switch f.Kind {
	case Cut:
		s.host.Cut()
	case Silence, Away:
		dir := f.Dir
		if f.Kind == Away {
			dir = zktest.Both
		}
		return s.block(dir)
	case Slow:
		s.host.Delay(f.Delay)
		return func() { s.host.Delay(0) }
	case Strike:
		return s.strike(f)
	case Kill:
		return s.stop(ErrKilled)
	case Restart:
		return s.stop(ErrStopped)
	case PauseProcess:
		return s.pause()
	case ClockStep:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clock += f.Delay
	}
	return nil
}

// strike injects into the members: a session may move.
func (s *Replica) strike(f Fault) (undo func()) {
	sessions := s.host.Sessions()
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
