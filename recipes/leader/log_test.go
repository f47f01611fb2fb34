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

// When a session expires, the server deletes its nodes, sends the events of their watches, also to the session's own client, and
// closes the connection. So a client that was stopped for long first gets the event of its node's deletion, and cannot join again
// since its session is expired, too. It has lost one place, and logs that once.
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
		time.Sleep(15 * time.Millisecond) // it has got the event, and is about to join the line again
		s.Expire(session(t, c))
		time.Sleep(time.Minute)
		follows(t, latch)
		assert.Equal(t, 1, strings.Count(log.String(), "lost the place in the line"))
	})
}
