package framework

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest"
)

// A reply above the limit fails its own operation, once, and nothing else: the connection stays, and so do the holds.
func TestAnAnswerAboveTheLimitFailsItsOperationOnly(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		for i := range 3 {
			make1(t, c, fmt.Sprintf("/tree/%d", i), string(bytes.Repeat([]byte{'x'}, 900<<10)))
		}
		for i := range 10 {
			make1(t, c, fmt.Sprintf("/small/%d", i), "")
		}
		before := srv.Counts()["createSession"]
		reads := []Read{ReadData("/tree/0"), ReadData("/tree/1"), ReadData("/tree/2")}
		_, err := c.MultiRead().ForReads(ctx, reads...)
		require.ErrorIs(t, err, ErrReplyTooLarge)
		assert.ErrorContains(t, err, "WithMaxReply")
		assert.ErrorContains(t, err, "the limit is 1052671")
		assert.NotErrorIs(t, err, ErrConnectionLoss)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown, "it was a read")
		assert.Equal(t, 1, srv.Counts()["multiRead"], "the retry policy is not asked")

		data, err := c.GetData().ForPath(ctx, "/tree/0")
		require.NoError(t, err)
		assert.Len(t, data, 900<<10)
		assert.Equal(t, before, srv.Counts()["createSession"], "one connection for all of it")
	}, WithMaxReply(1024))
}

// A client can read all data that it can write.
func TestTheLimitOfAnswersIsNoLowerThanThatOfRequests(t *testing.T) {
	bubbleOf(t, zktest.Config{MaxFrame: 4 << 20}, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := context.WithoutCancel(t.Context())
		_, err := c.Create().ForPath(ctx, "/a", nil)
		require.NoError(t, err)
		_, err = c.SetData().ForPath(ctx, "/a", make([]byte, 4<<20-22))
		require.NoError(t, err)
		data, err := c.GetData().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Len(t, data, 4<<20-22)
	}, WithMaxFrame(4<<20), WithMaxReply(1<<20))
}

// A message that no server sends has an error that errors.Is finds in the reason for the connection's end.
func TestAServerThatDoesNotKeepToTheProtocolHasAnErrorWithAName(t *testing.T) {
	err := wrapRefusal(fmt.Errorf("%w: an answer to nothing", wire.ErrProtocol))
	assert.ErrorIs(t, err, ErrMalformedReply)
	assert.ErrorContains(t, err, "an answer to nothing")
}
