package semaphore

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/recipes/internal/line"
)

// The model of the proof by which a waiter takes a lease unseen (move.go): that the version of "leases" is the one that
// lastMove.predictVersion returns. It calls that method and lastMove.expectsRoom; it simulates the line, the transactions and the
// server.
//
// Bounds: three clients, two of which share a Semaphore and its last move, join the line twice each, three times for a night. A waiter may
// give up, or leave without a transaction, at any time. The first may send a transaction after a list. Each waiter may
// send it unseen at any time, with a prediction from before; the server executes it later. Any reply may be lost. The empty
// directory of the line is made again once, alone or with that of the leases.
//
// Wrong: a transaction that was sent unseen is executed for a place that is not the first.
func TestExploreUnseenMoves(t *testing.T) {
	explore.Test(t, modelOfOrder(), "a place between is not counted")
}

// The model reaches a state in which a transaction that was sent unseen is executed, and one in which it is refused.
func TestExploreUnseenMovesFinds(t *testing.T) {
	for _, result := range []unseenResult{executed, refused} {
		m := modelOfOrder()
		m.Wrong = func(o order) string {
			if o.result == result {
				return "reached"
			}
			return ""
		}
		explore.Finds(t, m)
	}
}

type unseenResult int8

const (
	none unseenResult = iota
	executed
	refused
	passed // executed, although the place was not the first
)

// order is a state of the model.
type order struct {
	all     [3]contender
	last    [2]lastMove // of the Semaphores: the second is shared
	joined  int8        // the number of the next place
	dir     int64       // the czxid of the line's directory
	version int32       // of "leases"
	result  unseenResult
}

type contender struct {
	place   int8 // its number, from 1; 0: it is not in the line
	joins   int8 // how many are left
	sent    bool // an unseen transaction
	version int32
}

func modelOfOrder() explore.Model[order] {
	start := order{joined: 1, dir: 1}
	for i := range start.all {
		start.all[i].joins = 2
		if os.Getenv("LONG") != "" {
			start.all[i].joins = 3
		}
	}
	return explore.Model[order]{Start: []order{start}, Next: nextOrder, Wrong: func(o order) string {
		if o.result == passed {
			return "a waiter passes another"
		}
		return ""
	}}
}

// isFirst reports whether no place ahead is in the line.
func (o order) isFirst(place int8) bool {
	return !slices.ContainsFunc(o.all[:], func(c contender) bool { return 0 < c.place && c.place < place })
}

func nextOrder(o order, step func(string, order)) {
	o.result = none
	for i, c := range o.all {
		sem := (i + 1) / 2
		try := func(may bool, what string, f func(o *order, c *contender)) {
			if may {
				next := o
				f(&next, &next.all[i])
				step(fmt.Sprintf("%d: %s", i+1, what), next)
			}
		}
		move := func(o *order, c *contender, replied bool) {
			o.version++
			o.last[sem] = lastMove{
				place: int64(c.place), dir: line.Directory{Czxid: o.dir}, version: o.version, hasReply: replied,
				room: true, predicted: true,
			}
			c.place, c.sent, c.version = 0, false, 0
		}
		try(c.place == 0 && c.joins > 0, "it joins", func(o *order, c *contender) {
			c.place, c.joins = o.joined, c.joins-1
			o.joined++
		})
		try(c.place > 0 && !c.sent, "it leaves without a transaction", func(_ *order, c *contender) { c.place = 0 })
		for _, replied := range []bool{true, false} {
			try(c.place > 0 && !c.sent && o.isFirst(c.place), "the first moves", func(o *order, c *contender) { move(o, c, replied) })
		}
		version, ok := o.last[sem].predictVersion(int64(c.place))
		ok = ok && o.last[sem].expectsRoom(line.Directory{Czxid: o.dir})
		try(c.place > 0 && !c.sent && ok, "it sends a transaction unseen", func(_ *order, c *contender) {
			c.sent, c.version = true, version
		})
		for _, replied := range []bool{true, false} {
			try(c.sent, "the transaction arrives", func(o *order, c *contender) {
				switch {
				case c.version != o.version:
					c.sent, c.version, o.result = false, 0, refused
				case o.isFirst(c.place):
					move(o, c, replied)
					o.result = executed
				default:
					o.result = passed
				}
			})
		}
	}
	empty := !slices.ContainsFunc(o.all[:], func(c contender) bool { return c.place > 0 })
	for _, leases := range []bool{false, true} {
		if next := o; o.dir == 1 && empty {
			if next.dir, next.joined = 2, 1; leases {
				next.version = 0
			}
			step("the directory is made again", next)
		}
	}
}
