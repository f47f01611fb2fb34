package queue

import (
	"context"
	"sync"

	"github.com/go-curator/curator/framework"
)

// entrance is where the goroutines of one client, in one session, come into one line. A newcomer needs a list
// that the server reads after the newcomer's create. So one list is under way at a time, and those that come
// meanwhile share the next one: n that come at once need not have n lists of n names in memory.
type entrance struct {
	key   peersKey
	users int // guarded by entrances.mu

	mu      sync.Mutex
	running *sharedList // the last that was asked for: too early for who comes now; guarded by mu
	next    *sharedList // will be asked for when running is there; nil if nobody needs it; guarded by mu
}

// sharedList is a list of the directory for those whose creates were queued before it.
type sharedList struct {
	asked       chan struct{} // closed when it was asked for; nil if that was at once
	listed      *framework.Pending[framework.ChildrenResult]
	connections uint64 // of the session, before it was asked for
	users       int    // guarded by entrance.mu
}

// entrances has those that somebody uses. The idle ones are used again.
var entrances = struct {
	mu   sync.Mutex
	all  map[peersKey]*entrance // guarded by mu
	idle sync.Pool
}{all: map[peersKey]*entrance{}, idle: sync.Pool{New: func() any { return &entrance{} }}}

func enterBy(key peersKey) *entrance {
	entrances.mu.Lock()
	defer entrances.mu.Unlock()
	e := entrances.all[key]
	if e == nil {
		e = entrances.idle.Get().(*entrance)
		e.key = key
		entrances.all[key] = e
	}
	e.users++
	return e
}

// leave is called once for each enterBy.
func (e *entrance) leave() {
	entrances.mu.Lock()
	defer entrances.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(entrances.all, e.key)
		e.key = peersKey{}
		entrances.idle.Put(e)
	}
}

// list returns the list for a newcomer that has queued its create. It is own, which the newcomer has to ask
// for, if nobody else has one under way. done is called once for each list.
func (e *entrance) list(own *sharedList) *sharedList {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running != nil {
		if e.next == nil {
			e.next = &sharedList{asked: make(chan struct{})}
		}
		e.next.users++
		return e.next
	}
	*own = sharedList{users: 1}
	e.running = own
	return own
}

// done ends a newcomer's use of a list, when it has that or has given up. The next one is asked for then.
func (e *entrance) done(l *sharedList, ask func(*sharedList)) {
	e.mu.Lock()
	l.users--
	var next *sharedList
	switch {
	case e.running == l:
		next = e.next
		e.running, e.next = next, nil
	case e.next == l && l.users == 0:
		e.next = nil
	}
	e.mu.Unlock()
	if next != nil {
		defer close(next.asked) // also if a hook does not return
		ask(next)
	}
}

// names waits for the list. It is false if there is none: it is an error, or ctx has ended.
func (l *sharedList) names(ctx context.Context) (children []string, ok bool) {
	if l.asked != nil {
		select {
		case <-l.asked:
		case <-ctx.Done():
			return nil, false
		}
	}
	if l.listed == nil {
		return nil, false
	}
	list, err := l.listed.Wait(ctx)
	return list.Names, err == nil
}
