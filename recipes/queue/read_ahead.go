package queue

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

const (
	mostReadAhead = 8
	// readAheadTime limits the time for which read data count. Until the item is taken off, with the version that was read, it
	// may have been replaced by one of the same name, with the same version, if the queue was restored.
	readAheadTime = time.Second
)

// readAhead has items that a consumer without locks has read before it takes them off, several in one request. One
// goroutine at a time.
type readAhead struct {
	dir        *itemDirectory
	results    map[string]framework.ReadResult // by name
	readAt     time.Time
	handleTime time.Duration // of the last item
	refusedIn  int64         // the epoch of the last session in which a MultiRead has failed
}

// readItem reads an item, with the items of the backlog after it if the consumer will probably take them soon.
func (r *readAhead) readItem(ctx context.Context, name string, backlog *itemBacklog) ([]byte, framework.Stat, error) {
	if result, read := r.results[name]; read && time.Since(r.readAt) < readAheadTime {
		delete(r.results, name)
		return result.Data, result.Stat, result.Err
	}
	clear(r.results)
	r.readAt = time.Now()
	later := backlog.upcoming(readAheadCount(backlog.lossesInRow, r.handleTime))
	if epoch := r.dir.client.State().Epoch; len(later) > 0 && epoch != r.refusedIn {
		result, err := r.readMany(ctx, name, later)
		if err == nil {
			return result.Data, result.Stat, result.Err
		}
		r.refusedIn = epoch
	}
	var stat framework.Stat
	data, err := r.dir.client.GetData().Undecompressed().StoringStatIn(&stat).ForPath(ctx, r.dir.itemPath(name))
	return data, stat, err
}

// readMany reads an item and the later ones in one request, which is not repeated: old servers have no MultiRead, others
// break the connection at it, and the items may be too large for one reply.
func (r *readAhead) readMany(ctx context.Context, name string, later []string) (framework.ReadResult, error) {
	reads := []framework.Read{framework.ReadData(r.dir.itemPath(name))}
	for _, other := range later {
		reads = append(reads, framework.ReadData(r.dir.itemPath(other)))
	}
	all, err := line.AwaitResult(r.dir.client.MultiRead().Undecompressed().InBackground().ForReads(ctx, reads...))
	if err != nil {
		return framework.ReadResult{}, err
	}
	for i, other := range later {
		r.results[other] = all.Results[i+1]
	}
	return all.Results[0], nil
}

// readAheadCount returns the number of items to read with the present one. If other consumers are faster, as lost races
// show, or if handling an item takes long, these take the later items: then each would cost a refused write.
func readAheadCount(lossesInRow int, handleTime time.Duration) int {
	if lossesInRow > 0 || handleTime*mostReadAhead >= readAheadTime/10 {
		return 0
	}
	return mostReadAhead - 1
}
