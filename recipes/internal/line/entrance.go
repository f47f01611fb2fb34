package line

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
)

// Entrances are where the goroutines of one client come in, each by a key: the place that they come to, in one
// session. A newcomer asks something that the server has to answer after it came. If enough of the
// same are under way already, those that come meanwhile share the next one: n that come at once need not send n
// requests and have n answers in memory. A shared request is queued after the creates of all that share it, and a
// server executes a session's requests in order, so its answer is worth as much as one's own.
type Entrances[K comparable, Q any] struct {
	mu   sync.Mutex
	all  map[K]*Entrance[K, Q] // those that somebody uses; guarded by mu
	idle sync.Pool
}

// MostAtOnce is how many questions of one kind a client has under way where a goroutine that shares one would wait
// longer for its turn: a few goroutines need not wait for each other.
const MostAtOnce = 4

// Entrance is one of [Entrances].
type Entrance[K comparable, Q any] struct {
	of    *Entrances[K, Q]
	key   K
	users int // guarded by of.mu

	mu       sync.Mutex
	underWay int        // were asked, too early for who comes now, and nobody has the answer; guarded by mu
	next     *Shared[Q] // will be asked when one of them is answered; nil if nobody needs it; guarded by mu
}

// Shared is a question of those that came before it was asked.
type Shared[Q any] struct {
	Question Q             // written when it is asked
	asked    chan struct{} // closed when it was asked; nil if that was at once
	users    int           // guarded by Entrance.mu
	underWay bool          // counted as such; guarded by Entrance.mu

	needed context.Context // ends when nobody shares it any more; nil for the own question of one
	leave  func()
}

// Context is with what to ask the question: the context of the caller for its own, else one that has only its
// values and goes on until the last of those that share the question has left.
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

// Join returns the question of a newcomer. It is own, which the newcomer has to ask, if fewer than most are
// under way. Done is called once for each Join.
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

// Done ends a newcomer's use of a question, when it has the answer or has given up. If next is not nil, the caller
// has to ask that now, and then to call its WasAsked.
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

// WasAsked tells all that share the question.
func (s *Shared[Q]) WasAsked() { close(s.asked) }

// Asked waits until the question was asked. It is false if ctx has ended.
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

// entrances are those of lines.
var entrances Entrances[comers, listing]

// comers are those that share: goroutines of one client, in one session, in one line.
type comers struct {
	line    owner
	session int64
}

// listing is a list of the directory for those whose creates were queued before it.
type listing struct {
	listed      *framework.Pending[framework.ChildrenResult] // nil if whoever asked did not return
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

// errNotAsked says that the goroutine that had to ask for the others, too, did not return from a hook.
var errNotAsked = fmt.Errorf("the list that was shared was not asked for: %w", framework.ErrNotConnected)
