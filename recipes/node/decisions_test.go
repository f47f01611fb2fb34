package node

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/go-curator/curator/internal/golden"
)

// What the machine of a keeper does about each event that can happen, in every state that events lead to. There are half a
// million such situations: the table has what is done in each kind of them, how many there are, and a sum of all.
func TestDecisions(t *testing.T) {
	type kind struct {
		event eventKind
		busy  action
		known known
	}
	type outcome struct {
		does  action
		known known
		state State
	}
	type sum struct {
		n    int
		hash uint64
		does map[outcome]bool
	}
	all := map[kind]*sum{}
	for _, fresh := range []machine{
		{named: true, grasp: true},      // ephemeral, may take over
		{named: true, persistent: true}, //
		{unique: true},                  // sequential
	} {
		fresh = normal(fresh)
		reached := map[machine]bool{fresh: true}
		for todo := []machine{fresh}; len(todo) > 0; {
			m := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, e := range events(m) {
				k := kind{e.kind, m.busy, m.known}
				if all[k] == nil {
					all[k] = &sum{does: map[outcome]bool{}}
				}
				for _, steps := range []int{0, patience} {
					if steps > 0 && m.busy != rest && m.busy != look {
						break // how many requests there were matters in the same way after each
					}
					from := m
					from.steps = steps
					next, does := from.next(e)
					s := all[k]
					s.n++
					s.hash += digest(from, e, next, does)
					s.does[outcome{does, next.known, next.state()}] = true
					if next = normal(next); !reached[next] && does != stop && !next.over {
						reached[next] = true
						todo = append(todo, next)
					}
				}
			}
		}
	}
	knowns := [...]string{"blank", "doubt", "gone", "foreign", "ours"}
	var table golden.Table
	for k, s := range all {
		var does []string
		for o := range s.does {
			does = append(does, fmt.Sprint(o.does, " ", knowns[o.known], " ", o.state))
		}
		slices.Sort(does)
		table.Row([...]string{"connected", "suspended", "lost", "orphaned", "joined", "created", "seen", "absent", "written", "removed", "met",
			"failed", "rejected", "deleted", "stirred", "due", "asked", "closing"}[k.event],
			fmt.Sprintf("%s (%d situations, %016x)", strings.Join(does, ", or "), s.n, s.hash),
			"busy", k.busy, "known", knowns[k.known])
	}
	table.Compare(t, "keeper")
}

// digest is a number for a situation and what follows from it.
func digest(from machine, e event, to machine, does action) uint64 {
	b := make([]byte, 0, 128)
	bits := func(all ...bool) {
		for len(all) > 0 {
			n := min(8, len(all))
			one := byte(0)
			for i, set := range all[:n] {
				if set {
					one |= 1 << i
				}
			}
			b, all = append(b, one), all[n:]
		}
	}
	for _, m := range []machine{from, to} {
		bits(m.persistent, m.stays, m.named, m.grasp, m.unique, m.waiting, m.closing, m.over, m.connected, m.joined, m.watched, m.old,
			m.fleeting, m.made, m.wrote, m.unsure, m.dirty, m.failed, m.lasting)
		b = append(b, byte(m.busy), byte(m.known), byte(m.heard), byte(m.epoch), byte(m.mine), byte(m.certain), byte(m.theirs),
			byte(m.target), byte(m.version), byte(m.failures), byte(m.steps))
	}
	bits(e.latest, e.perhaps, e.final)
	b = append(b, byte(e.kind), byte(e.epoch), byte(e.whose), byte(e.czxid), byte(e.version), byte(does))
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// normal returns m with the numbers that stand for all others.
func normal(m machine) machine {
	m.steps, m.failures, m.version = 0, 0, 0
	for number, fields := range map[int64][]*int64{7: {&m.mine, &m.certain}, 9: {&m.theirs, &m.target}} {
		for _, f := range fields {
			if *f != 0 {
				*f = number
			}
		}
	}
	if m.epoch > 0 {
		m.heard, m.epoch = min(m.heard-m.epoch, 1)+1, 1
	} else {
		m.heard = min(m.heard, 1)
	}
	return m
}

// events returns what can happen to m.
func events(m machine) (all []event) {
	add := func(e event) { all = append(all, e) }
	all = []event{{kind: stirred}, {kind: asked}, {kind: closing}, {kind: stirred, final: true}}
	if m.watched || m.known == doubt {
		add(event{kind: deleted})
	}
	if m.waiting {
		add(event{kind: due})
	}
	if !m.connected {
		add(event{kind: connected, epoch: max(m.heard, 1)})
		add(event{kind: connected, epoch: m.heard + 1})
	} else {
		add(event{kind: suspended, epoch: m.heard})
	}
	if m.heard > 0 {
		add(event{kind: lost, epoch: m.heard})
	}
	if m.busy == rest {
		return all
	}
	if m.busy == join {
		return append(all, event{kind: joined, epoch: max(m.heard, 1)})
	}
	for _, kind := range []eventKind{orphaned, failed, rejected} {
		add(event{kind: kind, epoch: m.epoch})
	}
	if m.busy != look {
		add(event{kind: failed, epoch: m.epoch, perhaps: true})
		add(event{kind: rejected, epoch: m.epoch, perhaps: true})
		add(event{kind: met, epoch: m.epoch})
	}
	switch m.busy {
	case create, replace:
		for _, latest := range []bool{false, true} {
			e := event{kind: created, epoch: m.epoch, latest: latest, czxid: 7}
			if m.busy == replace {
				e.czxid = 0
			}
			add(e)
		}
	case look:
		add(event{kind: absent, epoch: m.epoch})
		for version := range int32(2) {
			for w := another; w <= own; w++ {
				for czxid := range int64(2) {
					e := event{kind: seen, epoch: m.epoch, whose: w, czxid: 9 + czxid, version: version}
					if w == own {
						e.czxid = 7 + czxid
					}
					add(e)
				}
			}
		}
	case set:
		for _, latest := range []bool{false, true} {
			add(event{kind: written, epoch: m.epoch, version: 1, latest: latest})
			add(event{kind: rejected, epoch: m.epoch, latest: latest})
		}
	case remove:
		add(event{kind: removed, epoch: m.epoch})
	}
	return all
}
