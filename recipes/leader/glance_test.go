package leader

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

// What an outdated look has seen is not noted, and it does not change since when the role is what it is.
func TestAnOutdatedLookIsNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c candidate
		began := time.Now()
		held := glance{number: 1, state: framework.Connected} // held up while it was seen that nothing is known yet
		now, noted := c.note(glance{number: 2, state: framework.Connected, leading: true})
		require.True(t, noted)
		require.Equal(t, Health{Role: Leading, Since: began}, now)
		time.Sleep(time.Minute)
		_, noted = c.note(held)
		require.False(t, noted)
		now, noted = c.note(glance{number: 3, state: framework.Connected, leading: true})
		require.True(t, noted)
		require.Equal(t, Health{Role: Leading, Since: began}, now)
	})
}
