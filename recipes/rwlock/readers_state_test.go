package rwlock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/golden"
)

func TestNextStateOfReaders(t *testing.T) {
	var (
		now    = time.Unix(1000, 0)
		l      = limits{joins: 2, howLong: time.Second}
		sure   = facts{certain: true, now: now}
		lost   = facts{now: now}
		asked  = facts{certain: true, asked: true, now: now}
		late   = facts{certain: true, now: now.Add(time.Second)}
		just   = facts{certain: true, now: now.Add(time.Second - 1)}
		line   = func(waiting int) state { return state{waiting: waiting} }
		tries  = func(waiting int) state { return state{waiting: waiting, try: true} }
		shared = func(p phase, readers, joins int) state {
			return state{phase: p, readers: readers, joins: joins, granted: now}
		}
	)
	for _, c := range []struct {
		what  string
		from  state
		event event
		facts facts
		to    state
		does  action
	}{
		{"one more while it is in line", line(1), onArrival, facts{}, line(2), wait},
		{"one that tries while it is in line", line(1), onTry, facts{}, line(1), renew},
		{"one that tries beside one that tries", tries(1), onTry, facts{}, tries(2), wait},
		{"one that waits beside one that tries", tries(1), onArrival, facts{}, tries(1), renew},
		{"not the last one gives up", line(2), onLeave, facts{}, line(1), nothing},
		{"the last one gives up", line(1), onLeave, facts{}, state{phase: over}, stop},
		{"the grant", line(3), onGrant, sure, shared(open, 3, 0), read},
		{"the grant of a try", tries(2), onGrant, sure, shared(open, 2, 0), read},
		{"the grant that is lost already", line(3), onGrant, lost, line(3), again},
		{"the grant that nobody wants", state{phase: over}, onGrant, sure, state{phase: over}, end},
		{"a failure", line(3), onFailure, facts{}, state{phase: over}, nothing},
		{"one who gives up after a failure", state{phase: over}, onLeave, facts{}, state{phase: over}, nothing},
		{"one joins", shared(open, 3, 0), onArrival, sure, shared(open, 4, 1), read},
		{"one that tries joins", shared(open, 3, 0), onTry, sure, shared(open, 4, 1), read},
		{"the last who may", shared(open, 1, 1), onArrival, just, shared(open, 2, 2), read},
		{"one too many", shared(open, 4, 2), onArrival, sure, shared(closed, 4, 2), renew},
		{"one too late", shared(open, 1, 0), onArrival, late, shared(closed, 1, 0), renew},
		{"one that tries too late", shared(open, 1, 0), onTry, late, shared(closed, 1, 0), renew},
		{"one after a loss", shared(open, 1, 0), onArrival, lost, shared(closed, 1, 0), renew},
		{"one after somebody has asked", shared(open, 1, 0), onArrival, asked, shared(closed, 1, 0), renew},
		{"one when it is closed", shared(closed, 1, 0), onArrival, sure, shared(closed, 1, 0), renew},
		{"one when it is over", state{phase: over}, onArrival, sure, state{phase: over}, renew},
		{"not the last one is done", shared(open, 2, 2), onLeave, facts{}, shared(open, 1, 2), nothing},
		{"the last one is done", shared(open, 1, 0), onLeave, facts{}, shared(over, 0, 0), end},
		{"the last one is done when it is closed", shared(closed, 1, 0), onLeave, facts{}, shared(over, 0, 0), end},
	} {
		to, does := l.next(c.from, c.event, c.facts)
		require.Equal(t, c.to, to, c.what)
		require.Equal(t, c.does, does, c.what)
	}
}

// Whatever happens: nobody reads with a hold that is not certain, or joins after the bounds, a request, or a
// loss; the node is given back when the last one has left, once, and not before; and nobody who waits is
// forgotten.
func FuzzNextStateOfReaders(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 4, 0, 4, 0}, false)
	f.Add([]byte{1, 0, 2, 0, 0, 8, 1, 1, 0, 0, 4, 0, 4, 0}, true)
	f.Fuzz(func(t *testing.T, script []byte, try bool) {
		l := limits{joins: 3, howLong: 10 * time.Second}
		s, now := state{try: try, waiting: 1}, time.Unix(0, 0)
		waiting, readers, joins := 1, 0, 0 // as a caller counts
		var granted time.Time
		has, final := false, false // the lock; nobody may join any more
		for ; len(script) > 1; script = script[2:] {
			e, b := event(script[0]%5), script[1]
			now = now.Add(time.Duration(b>>2) * time.Second)
			f := facts{certain: b&1 == 0 && !final, asked: b&2 != 0, now: now}
			switch { // what cannot happen
			case e == onGrant && has, e == onFailure && (has || s.phase == over),
				e == onLeave && waiting+readers == 0:
				continue
			}
			before := s
			var does action
			s, does = l.next(s, e, f)
			switch does {
			case wait:
				require.True(t, before.phase == coming && before.try == (e == onTry))
				waiting++
			case read:
				require.True(t, f.certain)
				if e == onGrant {
					has, granted, readers, waiting = true, now, waiting, 0
					require.Positive(t, readers)
					break
				}
				readers, joins = readers+1, joins+1
				require.True(t, has && !f.asked && !final)
				require.LessOrEqual(t, joins, l.joins)
				require.Less(t, now.Sub(granted), l.howLong)
			case renew:
				final = final || has
			case stop:
				waiting--
				require.Zero(t, waiting)
			case again:
				require.True(t, !f.certain && waiting > 0 && s == before)
			case end:
				if e == onLeave {
					readers--
				}
				require.Zero(t, waiting+readers, "somebody has it still")
				require.Equal(t, over, s.phase)
			case nothing:
				switch e {
				case onLeave:
					require.Greater(t, waiting+readers, 1, "the last one has left, and nothing is done")
					if has {
						readers--
					} else {
						waiting--
					}
				case onFailure:
					waiting = 0
				}
			}
			require.Equal(t, readers, s.readers)
			require.Equal(t, waiting, s.waiting)
			require.Equal(t, s.phase == over, waiting+readers == 0)
		}
	})
}

// What a group does about each event: in every state, with bounds of two.
func TestDecisionsOfReaders(t *testing.T) {
	phases, events := strings.Fields("coming open closed over"), strings.Fields("onArrival onTry onGrant onFailure onLeave")
	actions := strings.Fields("nothing wait read renew stop again end")
	l, now := limits{joins: 2, howLong: time.Second}, time.Unix(1000, 0)
	var table golden.Table
	for p, where := range phases {
		for e, on := range events {
			if has := phase(p) == open || phase(p) == closed; has && event(e) == onGrant || phase(p) != coming && event(e) == onFailure {
				continue // it cannot happen
			}
			for n := range 2 * 2 * 2 * 2 * 3 * 3 * 3 {
				next := func(of int) int { v := n % of; n /= of; return v }
				certain, asked, late, try := next(2) == 1, next(2) == 1, next(2) == 1, next(2) == 1
				from := state{phase: phase(p), try: try, waiting: next(3), readers: next(3), joins: next(3), granted: now}
				if from.phase == coming && from.waiting == 0 && event(e) == onLeave ||
					(from.phase == open || from.phase == closed) && from.readers == 0 && event(e) == onLeave {
					continue // there is nobody
				}
				f := facts{certain: certain, asked: asked, now: now.Add(time.Second - 1)}
				if late {
					f.now = f.now.Add(1)
				}
				to, does := l.next(from, event(e), f)
				changes := actions[does]
				switch to {
				case from:
				case state{phase: over}:
					changes += ", all is over"
				case state{phase: open, readers: from.waiting, granted: f.now}:
					changes += ", open for those who wait"
				default:
					require.True(t, to.try == from.try && to.granted.Equal(from.granted))
					if to.phase != from.phase {
						changes += ", " + phases[to.phase]
					}
					if n := to.waiting - from.waiting; n != 0 {
						changes += fmt.Sprintf(", waiting %+d", n)
					}
					if n := to.readers - from.readers; n != 0 {
						changes += fmt.Sprintf(", readers %+d", n)
					}
					if n := to.joins - from.joins; n != 0 {
						changes += fmt.Sprintf(", joins %+d", n)
					}
				}
				table.Row(where+", "+on, changes, "certain", certain, "asked", asked, "late", late, "try", try,
					"joins", from.joins, "waiting", from.waiting, "readers", from.readers)
			}
		}
	}
	table.Compare(t, "readers")
}
