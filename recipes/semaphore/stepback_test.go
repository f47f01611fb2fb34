package semaphore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBlockedByParts(t *testing.T) {
	children := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lease-%010d", i))
		}
		return append(names, "foreign")
	}
	for _, c := range []struct {
		what                    string
		max, taken, parts, want int
		blocked                 bool
	}{
		{"all wanted, a part in line", 3, 1, 1, 3, true},
		{"a part in line, but enough without it when the others are back", 3, 2, 1, 2, false},
		{"two of three, two parts", 3, 2, 2, 2, true},
		{"nobody in line has any", 3, 1, 0, 3, false},
		{"none free: those with parts could not go on either", 3, 3, 3, 2, false},
		{"there is room", 3, 1, 1, 2, false},
		{"one wanted: either there is room or none is free", 3, 2, 2, 1, false},
		{"one wanted, none free", 3, 3, 3, 1, false},
		{"the count has shrunk", 1, 3, 3, 2, false},
		{"more than there are", 3, 1, 1, 5, true},
		{"more than there are, and nobody to give way to", 3, 0, 0, 5, false},
	} {
		seen := leaseSnapshot{children: children(c.taken), max: c.max}
		require.Equal(t, c.blocked, seen.isDeadlocked(c.want, c.parts), c.what)
	}
	require.True(t, mayHoldParts("_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lock-0000000001"))
	require.True(t, mayHoldParts("lock-0000000001"))
	require.False(t, mayHoldParts("_c_d93c3b7d-b92f-87f8-97dd-71e653f1e8cf-lock-0000000001"))
}

func TestPatience(t *testing.T) {
	p, total := stepBackPatience(firstPatience), time.Duration(0)
	for range 20 {
		total += time.Duration(p)
		p = p.doubledPatience()
	}
	require.Equal(t, stepBackPatience(lastPatience), p)
	require.Less(t, total, 10*time.Minute)
	for range 100 {
		require.InDelta(t, float64(firstPatience), float64(stepBackPatience(firstPatience).jitteredWait()),
			float64(firstPatience)/4)
	}
}
