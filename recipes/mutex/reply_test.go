package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Data larger than the client's limit for a reply prevents neither Participants nor the wait in line.
func TestAContenderWhoseDataFitInNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{MaxFrame: 4 << 20})
		c, evil := newClient(t, s, framework.WithMaxReply(1<<20)), newClient(t, s, framework.WithMaxFrame(4<<20))
		huge := make([]byte, 3<<20)
		ahead, err := evil.Create().CreatingParentsIfNeeded().WithMode(framework.EphemeralSequential).
			ForPath(background, path+"/lock-", huge)
		require.NoError(t, err)
		m := mutex.New(c, path)
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		waiter := begin(t, ctx, m)
		time.Sleep(time.Second)
		line, err := m.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		assert.ErrorIs(t, line[0].DataErr, framework.ErrDataTooLarge)
		assert.NoError(t, line[1].DataErr)
		_, err = evil.SetData().ForPath(background, line[1].Path, huge) // the waiter's own
		require.NoError(t, err)
		require.NoError(t, evil.Delete().ForPath(background, ahead))
		release(t, waiter.End().OK())
	})
}
