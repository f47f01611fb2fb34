package framework

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/zktest"
)

// Data that fit in no request are refused before they are copied.
func TestDataThatAreTooLargeAreNotCopied(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *Client) {
		ctx, op, big := t.Context(), c.TransactionOp(), make([]byte, 32<<20)
		sets := make([]TransactionOp, 40)
		for i := range sets {
			sets[i] = op.SetData().ForPath("/a", big[:1<<19])
		}
		for name, call := range map[string]func() error{
			"create":                func() error { return errOf(c.Create().ForPath(ctx, "/a", big)) },
			"protected create":      func() error { return errOf(c.Create().WithProtection().ForPath(ctx, "/a", big)) },
			"set":                   func() error { return errOf(c.SetData().ForPath(ctx, "/a", big)) },
			"set in the background": func() error { return errOf(c.SetData().InBackground().ForPath(ctx, "/a", big).Wait(ctx)) },
			"transaction":           func() error { return errOf(c.Transaction(ctx, op.Create().ForPath("/a", big))) },
			"idempotent":            func() error { return errOf(c.IdempotentTransaction(ctx, op.Create().ForPath("/a", big))) },
			"many":                  func() error { return errOf(c.Transaction(ctx, sets...)) },
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := call()
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
			assert.ErrorIs(t, err, ErrTooLarge, name)
			assert.NotErrorIs(t, err, ErrOutcomeUnknown, name)
			assert.ErrorContains(t, err, "WithMaxFrame", name)
			assert.ErrorContains(t, err, " /a: ", name)
		}
	})
}
