package wire

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func (l *callList) all(t *testing.T) (calls []*Call) {
	t.Helper()
	var prev *Call
	for c := l.first; c != nil; c = c.next {
		if c.prev != prev {
			t.Fatal("the list is torn")
		}
		prev = c
		calls = append(calls, c)
	}
	require.Same(t, prev, l.last)
	require.Equal(t, len(calls), l.count)
	return calls
}

func TestCallListIsAFIFOThatAnyCallCanLeave(t *testing.T) {
	var l callList
	require.Nil(t, l.first)
	var want []*Call
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		switch n := random.IntN(5); {
		case n < 3 || len(want) == 0:
			c := &Call{}
			l.pushBack(c)
			want = append(want, c)
		case n == 3:
			i := random.IntN(len(want))
			want[i].removeFromList()
			require.Nil(t, want[i].next)
			require.Nil(t, want[i].prev)
			want = slices.Delete(want, i, i+1)
		default:
			require.Same(t, want[0], l.first)
			l.first.removeFromList()
			want = want[1:]
		}
		require.True(t, slices.Equal(want, l.all(t)))
	}
}
