package framework

import "fmt"

// ErrBackgroundFull means that 262144 operations of this client are in the background without an answer, so this one
// was not sent: each needs memory while it waits, and delays the requests queued after it. Wait for some of them and
// try again. Operations through the view of a session do not count, nor do guaranteed deletes and the reads of caches:
// so recipes do not lose their holds, and a lock can always be released.
var ErrBackgroundFull = newSentinel("too many operations in the background")

// admitToBackground counts an operation that is about to be queued, or refuses it.
func (q *backgroundRun[T]) admitToBackground() error {
	c := q.run.c
	if _, kept := any(q.run.leftovers).(*guaranteedDelete); kept || c.view.own || c.view.epoch != nil {
		return nil
	}
	n, most := c.core.ops.backgroundCount.Add(1), int64(c.core.cfg.background)
	if q.run.countsForLimit = n <= most; !q.run.countsForLimit {
		c.core.ops.backgroundCount.Add(-1)
		return fmt.Errorf("%w: the limit is %d", ErrBackgroundFull, most)
	}
	return nil
}
