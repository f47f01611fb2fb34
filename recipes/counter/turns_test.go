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
	for _, c := range []struct {
		name                 string
		wins                 int
		contended, overtaken bool
		want                 afterWin
	}{
		{"in the turn", 4, true, true, turnGoesOn},
		{"others may wait", 5, true, false, turnEnds},
		{"others wait, and others write that do not", 6, true, true, turnEnds},
		{"none waits", 5, false, false, turnRepeats},
		{"others write that do not wait in line", 5, false, true, turnPauses},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, nextAfterWin(c.wins, 5, c.contended, c.overtaken)) })
	}
}

func TestLinePosition(t *testing.T) {
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
		name          string
		own           string
		children      []string
		skipped       string
		predecessor   string
		ahead, others int
	}{
		{"alone", own, []string{mark, own}, "", "", 0, 0},
		{"the first", own, []string{behind, own}, "", "", 0, 1},
		{"behind two", own, []string{second, behind, own, first}, "", second, 2, 3},
		{"behind one that hangs", own, []string{first, own}, first, "", 0, 0},
		{"behind one, and one that hangs", own, []string{first, second, own}, second, first, 1, 1},
		{"the list is older", own, []string{first}, "", "", 0, 0},
		{"no children could be listed", own, nil, "", "", 0, 0},
		{"no numbers are left", last, []string{other, last}, "", "", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			predecessor, ahead, others := linePosition(c.own, c.children, c.skipped)
			require.Equal(t, c.predecessor, predecessor)
			require.Equal(t, c.ahead, ahead)
			require.Equal(t, c.others, others)
		})
	}
}

func TestLongestWait(t *testing.T) {
	const ms = time.Millisecond
	require.Equal(t, 200*ms, longestWait(1, ms))
	require.Equal(t, 800*ms, longestWait(7, ms))
	require.Equal(t, 2*time.Second, longestWait(1, 50*ms), "writes take long")
}
