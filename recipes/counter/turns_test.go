package counter

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTurnLength(t *testing.T) {
	for _, c := range []struct{ others, length int }{{0, 128}, {1, 64}, {6, 18}, {7, 16}, {15, 8}, {16, 8}, {1000, 8}} {
		require.Equal(t, c.length, turnLength(c.others), "%d others", c.others)
	}
}

func TestWritesToTurnEnd(t *testing.T) {
	for _, c := range []struct {
		version          int32
		length, writesTo int
	}{
		{0, 4, 4}, {1, 4, 3}, {3, 4, 1}, {4, 4, 4},
		{math.MaxInt32, 4, 1}, {math.MinInt32, 4, 4}, {-1, 4, 1}, // the version overflows
	} {
		require.Equal(t, c.writesTo, writesToTurnEnd(c.version, c.length), "version %d", c.version)
	}
}

func TestPauseAfterTurn(t *testing.T) {
	for _, c := range []struct {
		name                          string
		written, room, length, others int
		want                          int
	}{
		{"the others write all the time: one turn more", 12, 16, 4, 7, 16 + 4},
		{"up to a turn of each", 28, 32, 4, 7, 28 + 7},
		{"not all of them write: as long as those", 12, 20, 4, 7, 12 + 3},
		{"the others write a little: hardly", 2, 12, 4, 7, 4},
		{"no other writes: hardly", 0, 8, 4, 7, 4},
		{"more writes than a round", 1000, 2000, 4, 7, 28 + 7},
		{"the number was deleted, and has a lower version", -100, 8, 4, 7, 4},
		{"another node with a high version", math.MaxInt32, 8, 4, 7, 28 + 7},
		{"no other with a mark", 10, 10, 16, 0, 4},
		{"one other that writes all the time", 20, 20, 16, 1, 16 + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, pauseAfterTurn(c.written, c.room, c.length, c.others))
		})
	}
}

func TestPauseAfterLoss(t *testing.T) {
	for _, c := range []struct {
		name                  string
		losses                int
		version               int32
		length, others        int
		wantPause, wantRandom int
	}{
		{"the turn has just begun", 1, 8, 4, 7, 2, 3},
		{"the turn ends", 1, 11, 4, 7, 0, 3},
		{"the second time", 2, 8, 4, 7, 2, 0},
		{"the third time", 3, 8, 4, 7, 0, 2},
		{"many others", 1, 9, 4, 31, 1, 15},
		{"many times", 1000, 9, 4, 31, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			pause, random := pauseAfterLoss(c.losses, c.version, c.length, c.others)
			require.Equal(t, c.wantPause, pause)
			require.Equal(t, c.wantRandom, random)
		})
	}
}
