package semaphore

import (
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
)

// Count is a number kept in a node, here the limit of a semaphore, see [WithSharedCount]. It is the Count of
// package counter. Corresponds to Curator's SharedCount.
type Count = counter.Count

// CountValue is the value of a [Count] at one moment.
type CountValue = counter.Seen[int32]

// NewCount is [counter.NewCount].
func NewCount(client *framework.Client, path string) *Count { return counter.NewCount(client, path) }
