package porcupine

import (
	"fmt"
	"slices"

	checker "github.com/anishathalye/porcupine"
)

// The inputs of the models' operations. An operation with an unknown outcome has no output (see [chaos.History.Call]):
// for the models a nil output of Add, Read and Pop means that the output is unknown.
type (
	// Acquire is the beginning of a hold of a [Lock], a [Semaphore] or a [RWLock]; Shared is true for a hold of a read
	// lock. The operation lasts from the call to the grant; an attempt without a grant is no operation. Token is the
	// fencing token, 0 if there is none.
	Acquire struct {
		By     string
		Token  int64
		Shared bool
	}
	// Release is the end of a hold. The operation lasts from the last moment at which the hold was certainly valid
	// until the hold was released, or certainly lost.
	Release struct {
		By     string
		Token  int64
		Shared bool
	}
	// Add adds to a [Counter]. Its output is the new value.
	Add struct{ N int64 }
	// Read reads a [Counter]. Its output is the value.
	Read struct{}
	// Push adds a value at the end of a [Queue]. Its output does not count.
	Push struct{ Value string }
	// Pop removes the first value of a [Queue]. Its output is the value, "" if the queue was empty.
	Pop struct{}
)

// holders is the state of a lock, a read-write lock, or a semaphore. It is comparable, as porcupine requires.
type holders struct {
	writer string // who has a write lock
	others string // who has a read lock, a lease or a lock: a list made by joinNames, sorted
	count  int    // of others
	token  int64  // the largest token so far that later ones have to exceed
}

// Lock is the model of a mutex or an election: there is one hold at a time, and the tokens grow.
func Lock() checker.Model { return Semaphore(1) }

// Semaphore is the model of a semaphore: there are up to leases holds at a time. If leases is more than 1, the tokens
// are not compared.
func Semaphore(leases int) checker.Model {
	return holdModel(func(now holders, input any) (bool, holders) {
		switch op := input.(type) {
		case Acquire:
			grows := leases > 1 || op.Token == 0 || op.Token > now.token
			next := holders{others: addName(now.others, op.By), count: now.count + 1, token: max(now.token, op.Token)}
			return now.count < leases && grows, next
		case Release:
			rest, held := removeName(now.others, op.By)
			return held, holders{others: rest, count: now.count - 1, token: now.token}
		}
		return false, now
	})
}

// RWLock is the model of a read-write lock: there is one write hold, or any number of read holds. The token of each
// hold is larger than that of the last write hold before it.
func RWLock() checker.Model {
	return holdModel(func(now holders, input any) (bool, holders) {
		switch op := input.(type) {
		case Acquire:
			fresh := op.Token == 0 || op.Token > now.token
			if op.Shared {
				next := now
				next.others, next.count = addName(now.others, op.By), now.count+1
				return now.writer == "" && fresh, next
			}
			return now.writer == "" && now.count == 0 && fresh, holders{writer: op.By, token: max(now.token, op.Token)}
		case Release:
			next := now
			if !op.Shared {
				next.writer = ""
				return now.writer == op.By, next
			}
			rest, held := removeName(now.others, op.By)
			next.others, next.count = rest, now.count-1
			return held, next
		}
		return false, now
	})
}

// holdModel returns the model of holds with a transition function: step returns whether an operation is allowed, and
// the next state.
func holdModel(step func(now holders, input any) (bool, holders)) checker.Model {
	return checker.Model{
		Init: func() any { return holders{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := step(state.(holders), input)
			return ok, next
		},
		DescribeOperation: func(input, _ any) string {
			switch op := input.(type) {
			case Acquire:
				return fmt.Sprintf("%s begins%s, token %#x", op.By, readSuffix(op.Shared), op.Token)
			case Release:
				return fmt.Sprintf("%s ends%s, token %#x", op.By, readSuffix(op.Shared), op.Token)
			}
			return fmt.Sprintf("%#v", input)
		},
	}
}

func readSuffix(shared bool) string {
	if shared {
		return " to read"
	}
	return ""
}

// addName adds a name to a sorted list. The list is a string, so that states can be compared.
func addName(names, name string) string {
	list := append(splitNames(names), name)
	slices.Sort(list)
	return joinNames(list)
}

func removeName(names, name string) (rest string, found bool) {
	list := splitNames(names)
	i := slices.Index(list, name)
	if i < 0 {
		return names, false
	}
	return joinNames(slices.Delete(list, i, i+1)), true
}

func splitNames(names string) (list []string) {
	for len(names) > 0 {
		i := 0
		for names[i] != 0 {
			i++
		}
		list, names = append(list, names[:i]), names[i+1:]
	}
	return list
}

// joinNames returns the names as one string, with a zero byte after each.
func joinNames(list []string) (names string) {
	for _, name := range list {
		names += name + "\x00"
	}
	return names
}

// Counter is the model of a number that begins with 0.
func Counter() checker.Model {
	return checker.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			now := state.(int64)
			switch op := input.(type) {
			case Add:
				next := now + op.N
				return output == nil || output == next, next
			case Read:
				return output == nil || output == now, now
			}
			return false, now
		},
	}
}

// Queue is the model of a queue: values are popped in the order of their pushes.
func Queue() checker.Model {
	return checker.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			list := splitNames(state.(string))
			switch op := input.(type) {
			case Push:
				return true, joinNames(append(list, op.Value))
			case Pop:
				first, rest := "", list
				if len(list) > 0 {
					first, rest = list[0], list[1:]
				}
				return output == nil || output == first, joinNames(rest)
			}
			return false, state
		},
	}
}
