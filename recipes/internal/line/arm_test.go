package line

import (
	"fmt"
	"testing"

	"github.com/go-curator/curator/internal/golden"
)

// The watches that a waiter arms, and the facts that prove that it is the first: in each case.
func TestDecisionsByEvents(t *testing.T) {
	const ours, javas = "_c_aaaaaaaa-1111-8111-8111-111111111111-lock-0000000003", "_c_aaaaaaaa-1111-4111-8111-111111111111-lock-0000000003"
	var table golden.Table
	for n := range 1 << 7 {
		is := func(bit int) bool { return n>>bit&1 == 1 }
		for failures := range maxArmFailures + 2 {
			b := armInput{
				Decision:  Decision{Verdict: Wait, OnlyAhead: is(0), OrderAgreed: is(1), Predecessor: javas, Ahead: 1},
				usesMarks: is(2), ownWatched: is(3), ownChanged: is(4), failures: failures,
				mayRead: func() bool { return is(5) },
			}
			if is(6) {
				b.Predecessor = ours
			}
			w := b.watchesToArm()
			table.Row("watches", fmt.Sprintf("own %s, mark %v", [...]string{"no", "by a read", "unread"}[w.own], w.mark),
				"usesMarks", b.usesMarks, "failures", failures, "onlyAhead", b.OnlyAhead, "orderAgreed", b.OrderAgreed, "ours", is(6),
				"ownWatched", b.ownWatched, "ownChanged", b.ownChanged, "mayRead", is(5))
		}
		e := grantEvidence{markCreated: is(0), deletionEvent: is(1), onlyAhead: is(2), ownWatched: is(3), sameConnection: is(4)}
		table.Row("first", fmt.Sprint(e.provesFirst()), "ownWatched", e.ownWatched, "sameConnection", e.sameConnection,
			"markCreated", e.markCreated, "deletionEvent", e.deletionEvent, "onlyAhead", e.onlyAhead)
	}
	table.Compare(t, "events")
}
