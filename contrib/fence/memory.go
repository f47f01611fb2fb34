package fence

import (
	"container/list"
	"context"
	"fmt"
	"sync"
)

// Memory is a [Store] in the memory of the process, for a limited number of resources. Safe for concurrent use.
//
// When it is full, it forgets the token of the resource whose last write is the oldest, but remembers the largest token
// that it has forgotten so far. For a resource that it does not have it refuses tokens smaller than that
// ([ErrForgotten]), so that no late write succeeds. A holder that has not written for long may thus be refused, and has
// to acquire again; a larger limit makes that rare.
//
// All tokens are lost with the process: until the current holder has written once, a new process does not refuse the late
// writes of former holders. Where that matters, use a durable store.
type Memory struct {
	limit int

	mu     sync.Mutex
	known  map[string]*list.Element // of recent; guarded by mu
	recent list.List                // of *newestToken, the last written first; guarded by mu
	floor  int64                    // the largest token that was forgotten; guarded by mu
}

type newestToken struct {
	resource string
	newest   int64
}

// NewMemory returns a Memory for at most limit resources; a limit below 1 means 1.
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
		e := at.Value.(*newestToken)
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
		last := m.recent.Remove(m.recent.Back()).(*newestToken)
		delete(m.known, last.resource)
		m.floor = max(m.floor, last.newest)
	}
	m.known[resource] = m.recent.PushFront(&newestToken{resource, token})
	return nil
}
