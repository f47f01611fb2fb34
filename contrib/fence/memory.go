package fence

import (
	"container/list"
	"context"
	"fmt"
	"sync"
)

// Memory is a [Store] in the memory of the process, for a limited number of resources. Safe for concurrent
// use.
//
// When it is full, it forgets the resource that was written to least recently, but not the largest token
// that it has forgotten so far. A resource that it does not know is refused tokens smaller than that one
// ([ErrForgotten]): so forgetting lets nothing through. The price is that a holder whose hold is older than
// somebody else's, and who has not written for long, may have to acquire anew; a larger limit makes that
// rare.
//
// With the process everything is forgotten. Until the current holder has written once, a new process lets the
// late writes of former holders through. Where that matters, take a store that is kept.
type Memory struct {
	limit int

	mu     sync.Mutex
	known  map[string]*list.Element // of recent; guarded by mu
	recent list.List                // of *entry, the last written first; guarded by mu
	floor  int64                    // the largest token that was forgotten; guarded by mu
}

type entry struct {
	resource string
	newest   int64
}

// NewMemory returns a Memory of at most limit resources, at least one.
func NewMemory(limit int) *Memory {
	return &Memory{limit: max(limit, 1), known: map[string]*list.Element{}}
}

// Admit implements [Store]. It does not block. The error is that of ctx, [ErrBadArguments], [ErrOutdated] or
// [ErrForgotten].
func (m *Memory) Admit(ctx context.Context, resource string, token int64) error {
	if err := Check(resource, token); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.known[resource]; at != nil {
		e := at.Value.(*entry)
		if token < e.newest {
			return fmt.Errorf("fence: %w", &OutdatedError{resource, token, e.newest})
		}
		e.newest = token
		m.recent.MoveToFront(at)
		return nil
	}
	if token < m.floor {
		return fmt.Errorf("fence: %w: %d for %q, which was perhaps forgotten; tokens up to %d were", ErrForgotten,
			token, resource, m.floor)
	}
	if len(m.known) == m.limit {
		last := m.recent.Remove(m.recent.Back()).(*entry)
		delete(m.known, last.resource)
		m.floor = max(m.floor, last.newest)
	}
	m.known[resource] = m.recent.PushFront(&entry{resource, token})
	return nil
}
