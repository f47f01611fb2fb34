package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// Items get their numbers from the queue's node, which begins at 0 when it is recreated. Items that were put back
// under their old names, by a restore, have larger ones.

// ensureOrder makes certain, once per session, that the next item gets a larger number than the existing items.
func (d *itemDirectory) ensureOrder(ctx context.Context) error {
	session, err := d.client.SessionSoon(ctx)
	if err != nil || d.orderedEpoch.Load() == session.Epoch() {
		return err
	}
	node, err := d.client.CheckExists().ForPath(ctx, d.path)
	if err == nil && node != nil && node.NumChildren > 0 {
		err = d.raiseNumbers(ctx)
	}
	if err == nil || errors.Is(err, framework.ErrNoAuth) { // without READ it cannot find out
		err = nil
		d.orderedEpoch.Store(session.Epoch())
	}
	return err
}

// numbersPerTransaction is the number of numbers that one transaction uses up.
const numbersPerTransaction = 500

// raiseNumbers uses up the missing numbers. A transaction whose reply was lost is sent again: skipped numbers do no
// harm.
func (d *itemDirectory) raiseNumbers(ctx context.Context) error {
	for {
		var node framework.Stat
		names, err := d.client.GetChildren().StoringStatIn(&node).ForPath(ctx, d.path)
		if err != nil {
			return line.IgnoreError(err, framework.ErrNoNode)
		}
		missing := missingNumbers(names, node)
		if missing == math.MaxInt64 {
			return fmt.Errorf("%w (of a queue, once its items are taken: they go with the node)", ErrSequenceExhausted)
		}
		if missing <= 0 {
			return nil
		}
		d.client.Logger().Info("the sequence numbers of a queue's node restarted below those of its items; skipping to "+
			"larger numbers", "path", d.path, "numbers", missing)
		for ; missing > 0; missing -= numbersPerTransaction {
			err := d.client.Retry(ctx, func(ctx context.Context) error {
				return d.useUpNumbers(ctx, min(missing, numbersPerTransaction))
			})
			if err = line.IgnoreError(err, framework.ErrNoNode); errors.Is(err, framework.ErrNoAuth) {
				return fmt.Errorf("the numbers of the queue's node have begun again, and an item put now would come before "+
					"those that are there; to raise the numbers takes CREATE and DELETE: %w", err)
			}
			if err != nil {
				return mark.NotExecuted(err)
			}
		}
	}
}

// useUpNumbers uses up n numbers: each created node takes one, whatever its name.
func (d *itemDirectory) useUpNumbers(ctx context.Context, n int64) error {
	to, path := d.client.TransactionOp(), zkpath.Join(d.path, zkpath.NewGUID())
	var ops []framework.TransactionOp
	for range n {
		ops = append(ops, to.Create().Uncompressed().ForPath(path, []byte{}), to.Delete().ForPath(path))
	}
	_, err := line.AwaitResult(d.client.TransactionInBackground(ctx, ops...))
	return err
}

// missingNumbers returns how many numbers have to be used up until the next is larger than every item's: math.MaxInt64
// if no number is larger. The next number is the number of children ever created; a node's cversion is twice that
// number, less the number of present children.
func missingNumbers(names []string, node framework.Stat) int64 {
	next := (int64(uint32(node.Cversion)) + int64(node.NumChildren)) / 2
	last := int64(-1)
	for _, name := range names {
		if !strings.HasPrefix(name, itemPrefix) && !strings.HasPrefix(name, simplePrefix) {
			continue
		}
		if n, ok := zkpath.Sequence(name); ok {
			last = max(last, n)
		}
	}
	if last >= math.MaxInt32 {
		return math.MaxInt64
	}
	return last + 1 - next
}
