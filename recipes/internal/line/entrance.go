package line

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
)

// Entrances coalesce the requests of a client's goroutines, by a key: the line and the session. Each goroutine needs a
// reply to a request sent after its create. If enough such requests are in flight already, the goroutines that come
// until one of them is answered share the next request: n goroutines need not send n requests and have n replies in
// memory. A shared request is queued after the creates of all that share it, and a server executes a session's requests
// in order, so its reply is as recent as a separate one.
type Entrances[K comparable, Q any] struct {
	mu   sync.Mutex
	all  map[K]*Entrance[K, Q] // the entrances in use; guarded by mu
	idle sync.Pool
}

// MostAtOnce limits the requests of one kind that a client has in flight where sharing makes a goroutine wait longer
// for its turn: so a few goroutines need not wait for each other.
const MostAtOnce = 4

// Entrance is one of [Entrances].
type Entrance[K comparable, Q any] struct {
	of    *Entrances[K, Q]
	key   K
	users int // guarded by of.mu

	mu       sync.Mutex
	underWay int        // requests in flight, sent too early for newcomers; guarded by mu
	next     *Shared[Q] // will be sent when one of them is answered; nil if not needed; guarded by mu
}

// Shared is a request, shared by the goroutines that came before it was sent.
type Shared[Q any] struct {
	Question Q             // written when it is asked
	asked    chan struct{} // closed when it was sent; nil if it was never shared
	users    int           // guarded by Entrance.mu
	underWay bool          // counted as such; guarded by Entrance.mu

	needed context.Context // ends when no goroutine shares it any more; nil if it was never shared
	leave  func()
}

// Context returns the context for the request: the caller's if it is not shared, otherwise a context with the caller's
// values that ends when the last goroutine that shares the request has left.
func (s *Shared[Q]) Context(caller context.Context) context.Context {
	if s.needed == nil {
		return caller
	}
	return withValues{s.needed, caller}
}

// withValues has the values of another context, too.
type withValues struct {
	context.Context
	values context.Context
}

func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // what package context keeps there
		return v
	}
	return c.values.Value(key)
}

// Enter begins a newcomer's use of an entrance.
func (es *Entrances[K, Q]) Enter(key K) *Entrance[K, Q] {
	es.mu.Lock()
	defer es.mu.Unlock()
	e := es.all[key]
	if e == nil {
		var ok bool
		if e, ok = es.idle.Get().(*Entrance[K, Q]); !ok {
			e = &Entrance[K, Q]{of: es}
		}
		e.key = key
		if es.all == nil {
			es.all = map[K]*Entrance[K, Q]{}
		}
		es.all[key] = e
	}
	e.users++
	return e
}

// Leave is called once for each Enter.
func (e *Entrance[K, Q]) Leave() {
	es := e.of
	es.mu.Lock()
	defer es.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(es.all, e.key)
		var none K
		e.key = none
		es.idle.Put(e)
	}
}

// Join returns the request for a newcomer. It is own, which the newcomer has to send, if fewer than most are in flight.
// Done is called once for each Join.
func (e *Entrance[K, Q]) Join(own *Shared[Q], most int) *Shared[Q] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay >= most {
		if e.next == nil {
			e.next = &Shared[Q]{asked: make(chan struct{})}
			e.next.needed, e.next.leave = context.WithCancel(context.Background())
		}
		e.next.users++
		return e.next
	}
	*own = Shared[Q]{users: 1, underWay: true}
	e.underWay++
	return own
}

// Done ends a newcomer's use of a request, when it has the reply or has given up. If next is not nil, the caller has to
// send that now, and then to call its WasAsked.
func (e *Entrance[K, Q]) Done(s *Shared[Q]) (next *Shared[Q]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.users--; s.users == 0 && s.leave != nil {
		defer s.leave()
	}
	switch {
	case s.underWay:
		s.underWay = false
		e.underWay--
		if next = e.next; next != nil {
			e.next, next.underWay = nil, true
			e.underWay++
		}
	case e.next == s && s.users == 0:
		e.next = nil
	}
	return next
}

// WasAsked wakes all goroutines that share the request.
func (s *Shared[Q]) WasAsked() { close(s.asked) }

// Asked waits until the request was sent. It returns false if ctx has ended.
func (s *Shared[Q]) Asked(ctx context.Context) bool {
	if s.asked == nil {
		return true
	}
	select {
	case <-s.asked:
		return true
	case <-ctx.Done():
		return false
	}
}

// entrances are the entrances of lines.
var entrances Entrances[comers, listing]

// comers is the key of the goroutines that share: of one client, in one session, in one line.
type comers struct {
	line    owner
	session int64
}

// listing is a list of the directory for the goroutines whose creates were queued before it.
type listing struct {
	listed      *framework.Pending[framework.ChildrenResult] // nil if the sender did not return
	connections uint64                                       // of the session, before it was asked for
}

// namesOf waits for a list, until ctx ends.
func namesOf(ctx context.Context, list *Shared[listing]) (children []string, err error) {
	if !list.Asked(ctx) {
		return nil, flow.Ended(ctx)
	}
	if list.Question.listed == nil {
		return nil, errNotAsked
	}
	result, err := list.Question.listed.Wait(ctx)
	return result.Names, err
}

// errNotAsked means that the goroutine that had to send the shared list did not return from a hook.
var errNotAsked = fmt.Errorf("the list that was shared was not asked for: %w", framework.ErrNotConnected)
