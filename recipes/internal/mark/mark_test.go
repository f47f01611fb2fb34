package mark

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/framework"
)

// The outcome depends on whether the mark or the write was refused, and on the tries before.
func TestOutcomeOf(t *testing.T) {
	refused := func(index int, err error) error {
		return fmt.Errorf("transaction: %w", &framework.TransactionError{Index: index, Op: "setData", Err: err})
	}
	with, without := &Mark{}, &Mark{Forbidden: true}
	for _, c := range []struct {
		name    string
		mark    *Mark
		err     error
		unknown bool
		want    Outcome
	}{
		{"executed", with, nil, false, Done},
		{"executed at last", with, nil, true, Done},
		{"a lost reply", with, framework.ErrConnectionLoss, false, NoRefusal},
		{"the write refused", with, refused(1, framework.ErrBadVersion), false, Refused},
		{"the write refused, the mark as before", with, refused(1, framework.ErrBadVersion), true, Refused},
		{"the mark has the version that an earlier try has left", with, refused(0, framework.ErrBadVersion), true, Done},
		{"somebody has changed the mark", with, refused(0, framework.ErrBadVersion), false, MarkChanged},
		{"somebody has deleted it", with, refused(0, framework.ErrNoNode), false, MarkChanged},
		{"somebody has deleted it, perhaps after an earlier try", with, refused(0, framework.ErrNoNode), true, MarkChanged},
		{"not allowed", with, refused(0, framework.ErrNoAuth), false, MarkRefused},
		{"not allowed any more", with, refused(0, framework.ErrNoAuth), true, MarkRefused},
		{"without a mark", without, refused(0, framework.ErrBadVersion), true, Refused},
		{"a lost reply without a mark", without, framework.ErrConnectionLoss, false, NoRefusal},
	} {
		assert.Equal(t, c.want, c.mark.OutcomeOf(c.err, c.unknown), c.name)
	}
}
