package mutex

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/go-curator/curator/framework"
)

// maxStripes is more than any use needs: a used stripe costs its directory.
const maxStripes = 10_000

// Striped is many locks at fixed paths for very many keys: each key belongs to one of them. It is for locks of
// short-lived things, such as orders: no directory is left of each, and two keys seldom wait for each other. Safe for
// concurrent use. Curator has no such class.
//
// The stripe of a key is the FNV-1a hash of its bytes, of 32 bits, modulo the number of stripes; its lock is
// at path/0, path/1, and so on. All processes must use the same number of stripes: with another number they
// do not exclude each other.
//
// Stripes are in no order: a caller that holds one and waits for another may wait for itself, or in a circle.
// Take the locks of several keys with [Striped.OfAll].
type Striped struct{ locks []*Mutex }

// NewStriped makes the locks below path: stripes of them, 1 to 10,000. It sends nothing. With another number
// every method of the locks returns framework.ErrInvalidOption. Otherwise it is as [New].
func NewStriped(client *framework.Client, path string, stripes int, opts ...Option) *Striped {
	if stripes < 1 || stripes > maxStripes {
		return &Striped{[]*Mutex{{err: fmt.Errorf("%w NewStriped: %d stripes; choose 1 to %d",
			framework.ErrInvalidOption, stripes, maxStripes)}}}
	}
	s := &Striped{make([]*Mutex, stripes)}
	for i := range s.locks {
		s.locks[i] = New(client, fmt.Sprintf("%s/%d", path, i), opts...)
	}
	return s
}

// Of returns the lock of a key. Keys of one stripe get the same Mutex.
func (s *Striped) Of(key string) *Mutex {
	if len(s.locks) == 0 { // the zero value
		return &Mutex{}
	}
	return s.locks[s.stripeOf(key)]
}

// OfAll returns the locks of several keys as one: each stripe once, in the order of their numbers, so that no
// two callers wait for each other. Without a key every method of the Multi returns framework.ErrBadArguments.
func (s *Striped) OfAll(keys ...string) *Multi {
	if len(s.locks) == 0 { // the zero value
		return NewMulti(Of(&Mutex{}))
	}
	var stripes []int
	for _, key := range keys {
		stripes = append(stripes, s.stripeOf(key))
	}
	slices.Sort(stripes)
	var parts []Part
	for _, i := range slices.Compact(stripes) {
		parts = append(parts, Of(s.locks[i]))
	}
	return NewMulti(parts...)
}

func (s *Striped) stripeOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % uint32(len(s.locks)))
}
