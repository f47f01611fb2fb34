package porcupine

import (
	"fmt"
	"slices"

	checker "github.com/anishathalye/porcupine"
)

// Inputs of the models' operations. An operation with an unknown outcome has no output (see [chaos.History.Call]);
// the models take a nil output of Add, Push and Pop for unknown.
type (
	// Acquire is the beginning of a hold: of a [Lock], a [Semaphore], or, with Shared, of a [RWLock]'s read
	// side. Its time is from the call to the grant; an attempt that came to nothing is not an operation. Token
	// is the fencing token, 0 if there is none.
	Acquire struct {
		By     string
		Token  int64
		Shared bool
	}
	// Release is the end of a hold. Its time is from the last moment at which the hold was known to be valid to its
	// release, or to the moment at which it was known to be lost.
	Release struct {
		By     string
		Token  int64
		Shared bool
	}
	// Add adds to a [Counter]. Its output is the new value.
	Add struct{ N int64 }
	// Read reads a [Counter]. Its output is the value.
	Read struct{}
	// Push puts something at the end of a [Queue]. Its output is true.
	Push struct{ Value string }
	// Pop takes the first of a [Queue]. Its output is the value, "" if there was none.
	Pop struct{}
)

// holders is the state of a lock, a read-write lock, or a semaphore.
type holders struct {
	writer  string
	readers string // names, sorted, each with a space after it
	n       int
	token   int64
}

// Lock is something that one may have at a time, with tokens that grow: a mutex, an election.
func Lock() checker.Model { return Semaphore(1) }

// Semaphore is something that up to leases may have at a time. With more than one lease its tokens are not compared.
func Semaphore(leases int) checker.Model {
	return model(func(now holders, input any) (bool, holders) {
		switch op := input.(type) {
		case Acquire:
			grows := leases > 1 || op.Token == 0 || op.Token > now.token
			next := holders{readers: add(now.readers, op.By), n: now.n + 1, token: max(now.token, op.Token)}
			return now.n < leases && grows, next
		case Release:
			rest, held := remove(now.readers, op.By)
			return held, holders{readers: rest, n: now.n - 1, token: now.token}
		}
		return false, now
	})
}

// RWLock is something that one may have alone, or several with others that share it. A writer's token is
// larger than all before it; a reader's is larger than the last writer's.
func RWLock() checker.Model {
	return model(func(now holders, input any) (bool, holders) {
		switch op := input.(type) {
		case Acquire:
			fresh := op.Token == 0 || op.Token > now.token
			if op.Shared {
				next := now
				next.readers, next.n = add(now.readers, op.By), now.n+1
				return now.writer == "" && fresh, next
			}
			return now.writer == "" && now.n == 0 && fresh, holders{writer: op.By, token: max(now.token, op.Token)}
		case Release:
			next := now
			if !op.Shared {
				next.writer = ""
				return now.writer == op.By, next
			}
			rest, held := remove(now.readers, op.By)
			next.readers, next.n = rest, now.n-1
			return held, next
		}
		return false, now
	})
}

func model(step func(now holders, input any) (bool, holders)) checker.Model {
	return checker.Model{
		Init: func() any { return holders{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := step(state.(holders), input)
			return ok, next
		},
		DescribeOperation: func(input, _ any) string {
			switch op := input.(type) {
			case Acquire:
				return fmt.Sprintf("%s begins%s, token %#x", op.By, side(op.Shared), op.Token)
			case Release:
				return fmt.Sprintf("%s ends%s, token %#x", op.By, side(op.Shared), op.Token)
			}
			return fmt.Sprintf("%#v", input)
		},
	}
}

func side(shared bool) string {
	if shared {
		return " to read"
	}
	return ""
}

// add and remove change a sorted list of names, which is a string, so that states can be compared.
func add(names, name string) string {
	list := append(split(names), name)
	slices.Sort(list)
	return join(list)
}

func remove(names, name string) (rest string, found bool) {
	list := split(names)
	i := slices.Index(list, name)
	if i < 0 {
		return names, false
	}
	return join(slices.Delete(list, i, i+1)), true
}

func split(names string) (list []string) {
	for len(names) > 0 {
		i := 0
		for names[i] != 0 {
			i++
		}
		list, names = append(list, names[:i]), names[i+1:]
	}
	return list
}

func join(list []string) (names string) {
	for _, name := range list {
		names += name + "\x00"
	}
	return names
}

// Counter is a number that begins with 0.
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

// Queue is a queue: values are popped in the order of their pushes.
func Queue() checker.Model {
	return checker.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			list := split(state.(string))
			switch op := input.(type) {
			case Push:
				return true, join(append(list, op.Value))
			case Pop:
				first, rest := "", list
				if len(list) > 0 {
					first, rest = list[0], list[1:]
				}
				return output == nil || output == first, join(rest)
			}
			return false, state
		},
	}
}
