package semaphore

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// The version that the next transaction expects, and when it expects none.
func TestPredictVersion(t *testing.T) {
	for _, c := range []struct {
		last  lastMove
		place int64
		want  int32
		ok    bool
	}{
		{lastMove{place: 10, version: 5, hasReply: true}, 11, 5, true},
		{lastMove{place: 10, version: 5, hasReply: true}, 14, 8, true},
		{lastMove{place: 10, version: 5}, 11, 0, false},                 // the reply was lost
		{lastMove{place: 10, version: 5, hasReply: true}, 10, 0, false}, // "locks" was made again
		{lastMove{place: 10, version: 5, hasReply: true}, 3, 0, false},
		{lastMove{place: 10, version: -3, hasReply: true}, 13, 0, false},                       // -1 would be any version
		{lastMove{place: 10, version: math.MaxInt32, hasReply: true}, 12, math.MinInt32, true}, // as the server counts on
	} {
		version, ok := c.last.predictVersion(c.place)
		if assert.Equal(t, c.ok, ok, "%+v", c); ok {
			assert.Equal(t, c.want, version, "%+v", c)
		}
	}
}

// After which moves the next may precede the list of the leases: after the second in a row whose version was as predicted, while
// a quarter of the leases is free.
func TestRecordMove(t *testing.T) {
	s := &Semaphore{max: 8}
	s.line.Order = line.Order{Names: []string{lockName}}
	dir := line.Directory{Czxid: 1}
	move := func(place string, version, children int32) bool {
		s.recordMove(linePlace{lockName + place, dir}, leaseName+place, framework.Stat{Version: version, NumChildren: children})
		return s.lastMove.Load().expectsRoom(dir)
	}
	assert.False(t, move("0000000001", 1, 1), "the first")
	assert.True(t, move("0000000004", 4, 5), "as predicted")
	assert.False(t, move("0000000005", 5, 6), "too few are free")
	assert.False(t, move("0000000008", 7, 1), "one was left without a transaction")
	assert.True(t, move("0000000009", 8, 1))
	assert.False(t, move("0000000010", 0, 0), "the reply was lost")
	_, ok := s.lastMove.Load().predictVersion(11)
	assert.False(t, ok, "no version is known")
	assert.False(t, move("0000000011", 10, 1), "no prediction")
	assert.True(t, move("0000000012", 11, 1))
	for what, other := range map[string]line.Directory{
		"stopped":    {Czxid: 1, Version: 1},
		"made again": {Czxid: 2},
		"data":       {Czxid: 1, DataLength: 1},
		"not listed": {},
	} {
		assert.False(t, s.lastMove.Load().expectsRoom(other), what)
	}
	dir.Czxid = 2
	assert.False(t, move("0000000013", 12, 1), "another directory")
	assert.True(t, move("0000000014", 13, 1))
	dir.Version = -1
	assert.False(t, move("0000000015", 14, 1), "-1 would be any version")
}
