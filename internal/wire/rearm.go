package wire

import (
	"fmt"

	"github.com/go-curator/curator/internal/jute"
)

// setWatchesLimit keeps re-arming requests small, whatever packet limit the server has.
const setWatchesLimit = 128 << 10

// setWatchesHead is the size of a re-arming request without paths: header, zxid and the counts of five lists.
const setWatchesHead = 8 + 8 + 5*4

// prime writes the first requests of a new connection: catchUp, if this server may be behind the last event, and the
// requests that arm the watches again. The queued calls follow. Session.mu is held.
func (l *link) prime() {
	s := l.s
	l.pulse.sent, l.pulse.heard, l.pulse.owing = now(), now(), instant{}
	if s.identity.ahead && !l.readOnly {
		s.write(l, catchUp())
	}
	calls, gaps := s.watches.rearm(s.identity.zxid, s.cfg.MaxFrame)
	l.since = s.watches.gapFrom
	for i, c := range calls {
		c.Done = func(r Reply) {
			switch {
			case r.Err != nil:
			case r.Code != jute.CodeOK:
				l.close(fmt.Errorf("wire: the server did not re-arm the watches: %s", jute.CodeName(r.Code)))
			default:
				s.locked(func() (t todo) {
					if i == len(calls)-1 {
						t.reset(gaps)
					}
					if s.links.live == l {
						s.watches.unarmed--
					}
					return t
				})
			}
		}
		s.write(l, c)
	}
	var t todo
	s.pump(&t)
	if !t.none() {
		s.wg.Go(t.run) // calls that this server does not know; nothing may be called back under the lock
	}
}

// catchUp is a write that changes nothing, but goes through the quorum: a server replies to it, and to later requests,
// after it has executed all that was committed before. It is needed because events have no zxid: without it a lagging
// server would accept a client that has seen a later event, and may hold a lock because of that event. (A sync would do
// only if the leader is certain to lead.)
func catchUp() *Call {
	return &Call{Op: jute.OpMulti, Body: jute.Checks("/")}
}

// rearm returns the calls that arm every watch again on a new connection. All have the same zxid, the highest when the
// watches were last known to be armed: changes since then fire one-shot watches. Persistent watches get no events of
// the gap; their subscribers are returned, too, and have to read again. No call is longer than limit, if its paths
// allow.
func (r *registry) rearm(seen int64, limit int) (calls []*Call, gaps []*Watch) {
	since := seen
	if r.unarmed > 0 { // changes before the connection in between have not been reported
		since = min(since, r.gapFrom)
	}
	var persistent, recursive []string
	cur := &jute.SetWatches{RelativeZxid: since}
	room := min(setWatchesLimit, limit) - setWatchesHead
	size := 0
	add := func(list *[]string, path string) {
		if size += 4 + len(path); size > room && size > 4+len(path) {
			calls = append(calls, &Call{Op: jute.OpSetWatches, Body: jute.Marshal(cur)})
			*cur, size = jute.SetWatches{RelativeZxid: since}, 4+len(path)
		}
		*list = append(*list, path)
	}
	var next *watchEntry
	for e := r.order.first; e != nil; e = next {
		next = e.next
		e.guest, e.written = false, e.armed
		switch {
		case e.idle() && !e.armed:
			r.drop(e)
		case !e.armed:
		case e.key.kind == Persistent:
			e.mode = int8(e.wanted())
			if e.deep = int32(e.mode) == jute.WatchPersistentRecursive; e.deep {
				recursive = append(recursive, e.key.path)
			} else {
				persistent = append(persistent, e.key.path)
			}
			gaps = append(gaps, e.subs...)
		case e.key.kind == Child:
			add(&cur.Child, e.key.path)
		case e.exist:
			add(&cur.Exist, e.key.path)
		default:
			add(&cur.Data, e.key.path)
		}
	}
	if size > 0 {
		calls = append(calls, &Call{Op: jute.OpSetWatches, Body: jute.Marshal(cur)})
	}
	// setWatches2 only where it is needed: servers before 3.6 close the connection on it. It comes last: on
	// one path it must win.
	for len(persistent)+len(recursive) > 0 {
		two := &jute.SetWatches2{SetWatches: jute.SetWatches{RelativeZxid: since}}
		two.Persistent, persistent = cutStrings(persistent, room/2)
		if len(persistent) == 0 {
			two.Recursive, recursive = cutStrings(recursive, room/2)
		}
		calls = append(calls, &Call{Op: jute.OpSetWatches2, Body: jute.Marshal(two)})
	}
	r.unremoved, r.unarmed, r.gapFrom = map[string]bool{}, len(calls), since
	return calls, gaps
}

// cutStrings cuts off what fits into room, but one at least.
func cutStrings(all []string, room int) (now, later []string) {
	size := 0
	for i, s := range all {
		if size += 4 + len(s); size > room && i > 0 {
			return all[:i], all[i:]
		}
	}
	return all, nil
}
