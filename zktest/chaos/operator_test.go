package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The time for which a member was paused does not count towards noticing that it has lost the other members.
func TestATimeWithoutTheStandstills(t *testing.T) {
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	spans := []timeSpan{{at(0), at(5)}, {at(8), at(9)}, {at(20), at(30)}}
	for _, c := range []struct{ from, to, runs int }{{0, 5, 0}, {5, 8, 3}, {3, 10, 4}, {3, 4, 0}, {6, 25, 13}, {40, 50, 10}} {
		require.Equal(t, time.Duration(c.runs)*time.Second, timeWithout(spans, at(c.from), at(c.to)), "%v", c)
	}
	s := &memberPauses{spans: spans[:2], begun: at(20)}
	require.Equal(t, 14*time.Second, s.runningTime(at(5), at(60)), "it is paused still")
	s.recordResume(at(30))
	require.Equal(t, 44*time.Second, s.runningTime(at(5), at(60)))
}
