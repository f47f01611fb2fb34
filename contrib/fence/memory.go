package fence

import (
	"container/list"
	"context"
	"fmt"
	"sync"
)

// Memory is a [Store] in the memory of the process, for a limited number of resources. Safe for concurrent use.
//
// When it is full, it forgets the least recently written resource, but not the largest token that it has forgotten so
// far. A resource that it does not have is refused tokens smaller than that one ([ErrForgotten]): so no late write
// succeeds. The price is that a holder may have to acquire again if it has not written for long and its hold is older
// than that of another resource; a larger limit makes that rare.
//
// All tokens are lost with the process. Until the current holder has written once, a new process lets the late writes
// of former holders through. Where that matters, use a durable store.
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

// Admit implements [Store]. It does not block. It returns the error of ctx, [ErrBadArguments], [ErrOutdated] or
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
