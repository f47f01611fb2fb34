package counter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurnLength(t *testing.T) {
	for _, c := range []struct{ others, length int }{{0, 40}, {1, 20}, {2, 13}, {6, 5}, {7, 5}, {1000, 5}} {
		require.Equal(t, c.length, turnLength(c.others), "%d others", c.others)
	}
}

func TestNextAfterWin(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                 string
		wins                 int
		took                 time.Duration
		contended, overtaken bool
		want                 afterWin
	}{
		{"in the turn", 4, 99 * ms, true, true, turnContinues},
		{"others may wait", 5, ms, true, false, turnEnds},
		{"others wait, and others write that do not", 6, ms, true, true, turnEnds},
		{"slow writes", 1, 100 * ms, true, false, turnEnds},
		{"none waits", 5, ms, false, false, turnRepeats},
		{"others write that do not wait in line", 5, ms, false, true, turnPauses},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, nextAfterWin(c.wins, 5, c.took, c.contended, c.overtaken))
		})
	}
}

func TestPositionInLine(t *testing.T) {
	const (
		mark   = "_c_00000000-0000-8000-8000-000000000000-mark"
		first  = "_c_ffffffff-0000-8000-8000-000000000001-turn-0000000007"
		second = "_c_00000000-0000-8000-8000-000000000002-turn-0000000009"
		own    = "_c_cccccccc-0000-8000-8000-000000000003-turn-0000000010"
		behind = "_c_00000000-0000-8000-8000-000000000004-turn-0000000011"
		last   = "_c_00000000-0000-8000-8000-000000000005-turn-2147483647"
		other  = "_c_00000000-0000-8000-8000-000000000006-turn-2147483647"
	)
	for _, c := range []struct {
		name     string
		own      string
		children []string
		hung     []string
		want     linePosition
	}{
		{"alone", own, []string{mark, own}, nil, linePosition{}},
		{"the first", own, []string{behind, own}, nil, linePosition{others: 1}},
		{"behind two", own, []string{second, behind, own, first}, nil, linePosition{predecessor: second, ahead: 2, others: 3}},
		{"behind one that hangs", own, []string{first, own}, []string{first}, linePosition{ahead: 1, hung: []string{first}}},
		{"behind two that hang", own, []string{first, second, own}, []string{second, first}, linePosition{ahead: 2,
			hung: []string{first, second}}},
		{"behind one, and one that hangs", own, []string{first, second, own}, []string{second},
			linePosition{predecessor: first, ahead: 2, others: 1, hung: []string{second}}},
		{"one that hung is gone", own, []string{own}, []string{second}, linePosition{}},
		{"the list is older", own, []string{first}, nil, linePosition{}},
		{"no numbers are left", last, []string{other, last}, nil, linePosition{others: 1}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, positionInLine(c.own, c.children, c.hung)) })
	}
}

func TestLongestWait(t *testing.T) {
	const ms = time.Millisecond
	require.Equal(t, 200*ms, longestWait(1, ms))
	require.Equal(t, 800*ms, longestWait(7, ms))
	require.Equal(t, 2*time.Second, longestWait(1, 50*ms), "writes take long")
}
