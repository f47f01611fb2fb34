package queue

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
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
}

// readItem reads an item, with the items of the backlog after it if the consumer will probably take them soon.
func (r *readAhead) readItem(ctx context.Context, name string, backlog *itemBacklog) ([]byte, framework.Stat, error) {
	if result, read := r.results[name]; read && time.Since(r.readAt) < readAheadTime {
		delete(r.results, name)
		return result.Data, result.Stat, result.Err
	}
	clear(r.results)
	r.readAt = time.Now()
	if later := backlog.upcoming(readAheadCount(backlog.lossesInRow, r.handleTime)); len(later) > 0 {
		reads := []framework.Read{framework.ReadData(r.dir.itemPath(name))}
		for _, other := range later {
			reads = append(reads, framework.ReadData(r.dir.itemPath(other)))
		}
		results, err := r.dir.client.MultiRead().Undecompressed().ForReads(ctx, reads...)
		if err == nil {
			for i, other := range later {
				r.results[other] = results[i+1]
			}
			return results[0].Data, results[0].Stat, results[0].Err
		} // old servers have no MultiRead, and large items may not fit into one reply
	}
	var stat framework.Stat
	data, err := r.dir.client.GetData().Undecompressed().StoringStatIn(&stat).ForPath(ctx, r.dir.itemPath(name))
	return data, stat, err
}

// readAheadCount returns the number of items to read with the present one. Other consumers take the later ones if they are
// faster, as lost races show, or if handling an item takes long.
func readAheadCount(lossesInRow int, handleTime time.Duration) int {
	if lossesInRow > 0 || handleTime*mostReadAhead >= readAheadTime/10 {
		return 0
	}
	return mostReadAhead - 1
}
