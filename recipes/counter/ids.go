package counter

import (
	"context"
	"fmt"
	"math"

	"github.com/go-curator/curator/framework"
)

// IDs hands out numbers that no other caller gets, from blocks that it adds to a [Long]: one write for a whole block.
// Numbers of one IDs grow; the numbers of several are interleaved by blocks. The rest of a block when the process
// ends is never handed out. Make one and share it. Safe for concurrent use.
//
// Corresponds to Curator's CachedAtomicLong, and hands out the same numbers: from the Long's previous value up to,
// but not including, its new one.
type IDs struct {
	long      *Long
	block     int64
	slot      chan struct{} // the right to use next and end
	next, end int64         // of the last block; math.MinInt64 before the first
}

// NewIDs makes IDs that take block numbers at a time.
func NewIDs(long *Long, block int64) *IDs {
	return &IDs{long, block, make(chan struct{}, 1), math.MinInt64, math.MinInt64}
}

// Next returns the next number. Once per block it adds to the Long, while others wait, each until its own context
// ends; it returns the errors of [Number.Add]. After an error that matches ErrOutcomeUnknown a block may be lost; no
// number is handed out twice.
//
// If the Long was deleted, set back or restored from an old dump, so that the next block would begin below the end of
// the last one, the error is [ErrBadValue], and no number of that block is handed out: [Number.Set] the Long to more
// than any process has handed out. Each further call takes another block, and succeeds once that is behind the last
// one. A process that started later cannot detect which numbers were handed out before.
func (i *IDs) Next(ctx context.Context) (int64, error) {
	if i == nil || i.long == nil {
		return 0, wrapError("", "next id", framework.ErrNoClient)
	}
	err := i.long.checkReady(ctx)
	if err == nil && i.block < 1 {
		err = fmt.Errorf("%w: blocks of %d numbers", framework.ErrBadArguments, i.block)
	}
	if err != nil {
		return 0, i.long.wrapError("next id", err)
	}
	select {
	case i.slot <- struct{}{}:
		defer func() { <-i.slot }()
	case <-ctx.Done():
		return 0, i.long.wrapError("next id", i.long.node.client.WaitError(ctx, nil))
	}
	if i.next == i.end {
		end, err := i.long.Add(ctx, i.block)
		if err != nil {
			return 0, err
		}
		if begin := end - i.block; begin < i.end {
			return 0, i.long.wrapError("next id", fmt.Errorf("%w: the next block of ids begins at %d, below the end of "+
				"the last one, %d, and would repeat some: the number was deleted, set back or restored", ErrBadValue, begin, i.end))
		}
		i.next, i.end = end-i.block, end
	}
	i.next++
	return i.next - 1, nil
}
