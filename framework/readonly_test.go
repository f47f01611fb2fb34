package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A client that may read from a member without a quorum does so, says so, refuses to write, and goes to the others as soon as they have one.
func TestReadOnlyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e := zktest.RunEnsembleT(t, 3, zktest.Config{ReadOnlyMode: true})
		require.NoError(t, e.AwaitSettled(ctx))
		c, err := New(e.ConnectString(), WithDialer(e.Dial), WithSessionTimeout(10*time.Second), WithReadOnly())
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = c.Close()
			time.Sleep(2 * time.Second)
		})
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		make1(t, c, "/a", "x")

		// One member alone: it can be read, and nothing can be held, so that the session runs out.
		e.Member(1).Stop()
		e.Member(2).Stop()
		next(StateChange{Suspended, 1}, StateChange{ReadOnly, 1}, StateChange{Lost, 1}, StateChange{ReadOnly, 2})
		require.NoError(t, c.WaitConnected(ctx))
		data, err := c.GetData().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, "x", string(data))
		_, err = c.SetData().ForPath(ctx, "/a", nil)
		assert.ErrorIs(t, err, ErrNotReadOnly)
		time.Sleep(10 * time.Minute)
		assert.Equal(t, StateChange{ReadOnly, 2}, c.State(), "for as long as it takes")

		// The others are back, without it: the client finds them, although its own member still serves.
		e.Partition(0)
		require.NoError(t, e.Member(1).Start())
		require.NoError(t, e.Member(2).Start())
		began := time.Now()
		require.Eventually(t, func() bool { return c.State().State == Reconnected }, time.Hour, 100*time.Millisecond)
		assert.Less(t, time.Since(began), 2*time.Minute)
		_, err = c.SetData().ForPath(ctx, "/a", nil)
		require.NoError(t, err)
	})
}
