package leader_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// A server that ends a session deletes its nodes, tells of that who watches them, the session's own client, too, and
// closes the connection. So a client that was stopped for long first hears that its node is gone, and cannot join again
// since its session is, too. It has lost one place.
func TestALostPlaceIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		join(t, newClient(t, s))
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		latch := join(t, c)
		follows(t, latch)
		line, err := latch.Participants(t.Context())
		require.NoError(t, err)
		require.Len(t, line, 2)
		s.Delay(session(t, c), 10*time.Millisecond)
		require.NoError(t, s.Delete(line[1].Path))
		time.Sleep(15 * time.Millisecond) // it has heard of that, and is on its way into the line again
		s.Expire(session(t, c))
		time.Sleep(time.Minute)
		follows(t, latch)
		assert.Equal(t, 1, strings.Count(log.String(), "lost the place in the line"))
	})
}
