package barrier

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// reentryDelay is how long a member that may share the barrier with Java stays away after it has left. A Java
// member that wakes up to find the round over lists the directory. If it sees two members that have come back
// already, it takes them for members that have not left yet, and waits for them, and they for it.
const reentryDelay = time.Second

// peers is what a Double knows about those it shares the barrier with.
type peers struct {
	mu      sync.Mutex
	foreign bool      // there was one that is not ours; guarded by mu
	known   bool      // all have been seen at once, and were ours; guarded by mu
	left    time.Time // when a member has last left; guarded by mu
}

// seen takes note of members seen in one list.
func (p *peers) seen(members []string, qty int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isForeign := func(name string) bool { return !zkpath.IsOurGUID(name) }
	p.foreign = p.foreign || slices.ContainsFunc(members, isForeign)
	p.known = p.known || len(members) >= qty
}

// unknown says that it is not known yet whether some are Java's.
func (p *peers) unknown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.known && !p.foreign
}

// leaving takes note of a member that leaves now.
func (p *peers) leaving() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = time.Now()
}

// awaitReentry waits until reentryDelay has passed, unless all members are known to be ours.
func (p *peers) awaitReentry(ctx context.Context, client *framework.Client) error {
	p.mu.Lock()
	wait := time.Until(p.left.Add(reentryDelay))
	if p.known && !p.foreign {
		wait = 0
	}
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return queue.Sleep(ctx, client, wait)
}
