package bed

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFailureIsAnError(t *testing.T) {
	b := New(t.TempDir())
	reached := false
	err := b.Try(func() {
		b.Logf("before %d", 1)
		b.Fatal(errors.New("no server"))
		reached = true
	})
	assert.EqualError(t, err, "no server")
	assert.False(t, reached)
	assert.True(t, b.Failed())
	assert.EqualError(t, b.End(), "before 1", "what was logged helps")
}

func TestTheEndIsInOrder(t *testing.T) {
	b := New(t.TempDir())
	var order []int
	require.NoError(t, b.Try(func() {
		for i := range 3 {
			b.Cleanup(func() { order = append(order, i) })
		}
	}))
	assert.NotEqual(t, b.TempDir(), b.TempDir())
	require.DirExists(t, b.TempDir())
	require.NoError(t, b.End())
	assert.Equal(t, []int{2, 1, 0}, order)
	require.NoError(t, b.End(), "once")
	assert.Len(t, order, 3)
}

func TestOtherPanicsStay(t *testing.T) {
	b := New(os.DevNull)
	assert.PanicsWithValue(t, "a bug", func() { _ = b.Try(func() { panic("a bug") }) })
}
