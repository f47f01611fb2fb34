package barrier

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// settling is how long a member that may have Java company stays away after it has left. A Java member that wakes up to find the round over
// lists the directory; if it sees two members who have come back already, it takes them for members that have not left yet, and waits for
// them, and they for it. The second can be prevented from here.
const settling = time.Second

// company is what a Double knows about those it shares the barrier with.
type company struct {
	mu      sync.Mutex
	foreign bool      // there was one that is not ours; guarded by mu
	known   bool      // all have been seen at once, and were ours; guarded by mu
	left    time.Time // when a member has last left; guarded by mu
}

// met takes note of members seen in one list.
func (c *company) met(members []string, qty int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.foreign = c.foreign || slices.ContainsFunc(members, func(name string) bool { return !zkpath.IsOurGUID(name) })
	c.known = c.known || len(members) >= qty
}

// unsure says that it is not known yet whether a member has Java company.
func (c *company) unsure() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.known && !c.foreign
}

func (c *company) parted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = time.Now()
}

// settle waits until slow Java members must have noticed that the last round is over. Among ourselves there is no need for that.
func (c *company) settle(ctx context.Context, client *framework.Client) error {
	c.mu.Lock()
	wait := time.Until(c.left.Add(settling))
	if c.known && !c.foreign {
		wait = 0
	}
	c.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return client.Left(ctx, nil)
	}
}
