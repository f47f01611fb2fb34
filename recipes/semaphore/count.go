package semaphore

import (
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
)

// Count is a number in a node that everybody may read and set: how many leases a semaphore has, see
// [WithSharedCount]. It is that of package counter. Corresponds to Curator's SharedCount.
type Count = counter.Count

// CountValue is what a [Count] was at one moment.
type CountValue = counter.Seen[int32]

// NewCount is [counter.NewCount].
func NewCount(client *framework.Client, path string) *Count { return counter.NewCount(client, path) }
