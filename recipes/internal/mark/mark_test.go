package mark

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// The outcome depends on whether the mark or the write was refused, and on the earlier tries.
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

func currentSession(t *testing.T, c *framework.Client) *framework.Session {
	t.Helper()
	session, err := c.Session(context.Background())
	require.NoError(t, err)
	return session
}

// A write whose reply is lost is retried: the mark shows that it was executed, and prevents a second execution.
func TestARepeatedWriteIsExecutedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/data", nil))
		c := recipetest.Client(t, s)
		m := New(currentSession(t, c), "/data")
		_, err := m.Create().ForPath(t.Context(), m.Path, []byte{})
		require.NoError(t, err)
		for _, data := range []string{"first", "second"} {
			write := m.Write(c.TransactionOp().SetData().ForPath("/data", []byte(data)))
			_, err := c.Transaction(t.Context(), write...)
			require.Equal(t, Done, m.OutcomeOf(err, false))
			require.NoError(t, s.Set("/data", []byte("another's")))
			_, err = c.Transaction(t.Context(), write...)
			require.Error(t, err)
			require.Equal(t, Done, m.OutcomeOf(err, true))
			require.Equal(t, "another's", string(s.Tree()["/data"].Data))
			m.Written()
		}
		m.Forget()
		recipetest.Clean(t, s, "/data")

		m.Forbidden = true
		_, err = c.Transaction(t.Context(), m.Write(c.TransactionOp().SetData().ForPath("/data", []byte("without")))...)
		require.NoError(t, err)
	})
}

// A mark serves its session, until its versions are used up. Forget sends a delete only for a mark that may exist.
func TestAMarkServesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := recipetest.Client(t, s)
		first := currentSession(t, c)
		var none *Mark
		assert.False(t, none.Serves(first))
		m := New(first, "/")
		m.version = 1<<30 - 1
		assert.True(t, m.Serves(first))
		m.Written()
		assert.False(t, m.Serves(first))

		synctest.Wait()
		s.ResetCounts()
		none.Forget()
		m.Forget()
		recipetest.Counts(t, s, "no mark was created", map[string]int{})
		m.Create()
		m.Forget()
		recipetest.Counts(t, s, "the outcome of the create is unknown", map[string]int{"delete": 1})

		s.Expire(first.ID())
		<-first.Context().Done()
		next := currentSession(t, c)
		m = New(first, "/")
		assert.False(t, m.Serves(next))
		m.Create()
		synctest.Wait()
		s.ResetCounts()
		m.Forget()
		recipetest.Counts(t, s, "the mark is gone with its session", map[string]int{})
	})
}

// NotExecuted keeps the error, except for an unknown outcome: the write was not sent, so it can be retried.
func TestNotExecuted(t *testing.T) {
	lost := fmt.Errorf("read: %w", framework.ErrConnectionLoss)
	require.ErrorIs(t, lost, framework.ErrOutcomeUnknown)
	err := NotExecuted(lost)
	for target, want := range map[error]bool{
		framework.ErrOutcomeUnknown: false, framework.ErrConnectionLoss: false, framework.ErrOperationTimeout: false,
		framework.ErrNotConnected: true, framework.ErrNoAuth: false,
	} {
		assert.Equal(t, want, errors.Is(err, target), "%v", target)
	}
	assert.ErrorContains(t, err, lost.Error())
	assert.Equal(t, framework.ErrNoAuth, NotExecuted(framework.ErrNoAuth))
}
