package leader

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

// An outdated reading is not recorded, and does not change Since.
func TestOutdatedReadingIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c candidate
		began := time.Now()
		late := roleReading{number: 1, state: framework.Connected} // begins before the next reading, and ends after it
		now, recorded := c.recordReading(roleReading{number: 2, state: framework.Connected, leading: true})
		require.True(t, recorded)
		require.Equal(t, Health{Role: Leading, Since: began}, now)
		time.Sleep(time.Minute)
		_, recorded = c.recordReading(late)
		require.False(t, recorded)
		now, recorded = c.recordReading(roleReading{number: 3, state: framework.Connected, leading: true})
		require.True(t, recorded)
		require.Equal(t, Health{Role: Leading, Since: began}, now)
	})
}
