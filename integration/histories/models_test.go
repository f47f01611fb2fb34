package histories

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// tenure is the input of an operation on a lock or an election: a hold begins or ends.
type tenure struct {
	begins bool
	who    int
	token  int64
	lost   bool // lost, not released
}

// held is the state of a lock.
type held struct {
	by    int // -1: free
	last  int // the client with the last token
	token int64
}

// exclusive is the model of a thing with one holder at a time, and tokens that grow. A client that holds the same node
// again has the same token.
var exclusive = porcupine.Model{
	Init: func() any { return held{by: -1, last: -1} },
	Step: func(state, input, _ any) (bool, any) {
		now, op := state.(held), input.(tenure)
		if !op.begins {
			return now.by == op.who && now.token == op.token, held{-1, now.last, now.token}
		}
		grows := op.token > now.token || op.token == now.token && op.who == now.last
		return now.by == -1 && grows, held{op.who, op.who, op.token}
	},
	DescribeOperation: func(input, _ any) string {
		op := input.(tenure)
		if op.begins {
			return fmt.Sprintf("%d begins, token %#x", op.who, op.token)
		}
		how := map[bool]string{true: "loses it", false: "ends"}[op.lost]
		return fmt.Sprintf("%d %s, token %#x", op.who, how, op.token)
	},
}

// outcome is the outcome of an operation.
type outcome int

const (
	done outcome = iota
	refused
	unknown
)

func (o outcome) String() string { return [...]string{"done", "refused", "unknown"}[o] }

// step is the input of an operation on a counter: the values read, and the values written, unless the operation only
// confirms a read.
type step struct {
	confirms        bool
	version, value  int // as read
	written, became int // became is the version that the server returned
	outcome         outcome
}

// number is a counter in a node.
type number struct{ version, value int }

// counting is the model of a counter. Its rule for a success holds however the success came about.
var counting = porcupine.Model{
	Init: func() any { return number{} },
	Step: func(state, input, _ any) (bool, any) {
		now, op := state.(number), input.(step)
		next := number{now.version + 1, now.value + 1}
		switch {
		case op.outcome == refused:
			return now.version != op.version, now
		case op.confirms:
			return now == number{op.version, op.value}, now
		case op.outcome == done:
			return next == number{op.became, op.written}, next
		case now.version == op.version:
			return op.written == next.value, next // unknown, and in time; a later one changes nothing
		}
		return true, now
	},
	DescribeOperation: func(input, _ any) string {
		op := input.(step)
		if op.confirms {
			return fmt.Sprintf("read %d, version %d: %v", op.value, op.version, op.outcome)
		}
		return fmt.Sprintf("%d (version %d) to %d (version %d): %v", op.value, op.version, op.written, op.became,
			op.outcome)
	},
}

// guarded is the input of a write under a guard.
type guarded struct {
	token   int64
	outcome outcome
}

// fencing is the model of holders' writes: tokens never decrease.
var fencing = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		now, op := state.(int64), input.(guarded)
		if op.outcome == unknown {
			return true, max(now, op.token) // an older write is the same as none
		}
		return op.token >= now, op.token
	},
	DescribeOperation: func(input, _ any) string {
		op := input.(guarded)
		return fmt.Sprintf("write, token %#x: %v", op.token, op.outcome)
	},
}
