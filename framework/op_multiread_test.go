package framework

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestMultiRead(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/a/x", "one")
		make1(t, c, "/a/y", "two")
		require.NoError(t, srv.Create("/secret", nil))
		require.NoError(t, srv.SetACL("/secret", zktest.ACL{Perms: 2, Scheme: "world", ID: "anyone"}))
		srv.ResetCounts()

		results, err := c.MultiRead().ForReads(ctx, ReadData("/a/x"), ReadChildren("/a"), ReadData("/none"),
			ReadData("/secret"), ReadChildren("/none"), ReadData("/a/y"))
		require.NoError(t, err)
		require.Len(t, results, 6)
		assert.Equal(t, "one", string(results[0].Data))
		assert.Equal(t, "/a/x", results[0].Path)
		_, stat, err := srv.Get("/a/x")
		require.NoError(t, err)
		assert.Equal(t, Stat(stat), results[0].Stat)
		assert.ElementsMatch(t, []string{"x", "y"}, results[1].Children)
		require.ErrorIs(t, results[2].Err, ErrNoNode)
		assert.EqualError(t, results[2].Err, "getData /none: node does not exist")
		require.ErrorIs(t, results[3].Err, ErrNoAuth)
		assert.EqualError(t, results[4].Err, "getChildren /none: node does not exist")
		assert.Equal(t, "two", string(results[5].Data))
		assert.Equal(t, 1, srv.Counts()["multiRead"])
		assert.Zero(t, srv.Counts()["getData"])
	})
}

func TestMultiReadInBackground(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a", "one")
		read := func() MultiReadResult {
			r, err := c.MultiRead().InBackground().ForReads(t.Context(), ReadData("/a")).Wait(t.Context())
			require.NoError(t, err)
			return r
		}
		first := read()
		assert.Equal(t, "one", string(first.Results[0].Data))
		assert.Equal(t, srv.Zxid(), first.Zxid)
		assert.Equal(t, first.Zxid, read().Zxid)
		require.NoError(t, srv.Create("/elsewhere", nil))
		assert.Equal(t, first.Zxid+1, read().Zxid)

		ctx, cancel := context.WithCancel(t.Context())
		hold := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
		p := c.MultiRead().InBackground().ForReads(ctx, ReadData("/a"))
		<-hold.Struck()
		cancel()
		_, err := p.Wait(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		hold.Release()
	})
}

func TestMultiReadStaysInItsNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		require.NoError(t, srv.Create("/ns/a", []byte("inside")))
		require.NoError(t, srv.Create("/a", []byte("outside")))
		results, err := c.UsingNamespace("ns").MultiRead().ForReads(t.Context(), ReadData("/a"), ReadChildren("/"))
		require.NoError(t, err)
		assert.Equal(t, "inside", string(results[0].Data))
		assert.Equal(t, "/a", results[0].Path)
		assert.Equal(t, []string{"a"}, results[1].Children)
	})
}

func TestMultiReadRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		srv.ResetCounts()
		_, err := c.MultiRead().ForReads(ctx)
		require.ErrorIs(t, err, ErrBadArguments)
		_, err = c.MultiRead().ForReads(ctx, ReadData("/a"), ReadData("b"))
		require.ErrorIs(t, err, ErrInvalidPath)
		_, err = c.MultiRead().ForReads(ctx, Read{})
		require.ErrorIs(t, err, ErrBadArguments)
		var none context.Context
		_, err = c.MultiRead().ForReads(none, ReadData("/a"))
		require.ErrorIs(t, err, ErrNilContext)
		var many []Read
		for i := range 300 {
			many = append(many, ReadData(fmt.Sprintf("/%s-%d", strings.Repeat("x", 4000), i)))
		}
		_, err = c.MultiRead().ForReads(ctx, many...)
		require.ErrorIs(t, err, ErrTooLarge)
		assert.Zero(t, srv.Counts()["multiRead"])
	})
}

func TestMultiReadOnAnOldServer(t *testing.T) {
	bubbleOf(t, zktest.Config{Profile: zktest.V35}, func(t *testing.T, srv *zktest.Server, c *Client) {
		for range 3 {
			_, err := c.MultiRead().ForReads(t.Context(), ReadData("/"))
			require.ErrorIs(t, err, ErrUnimplemented)
		}
		assert.Zero(t, srv.Counts()["multiRead"], "the server is asked first")
		assert.Equal(t, 2, srv.Counts()["checkWatches"], "what the server lacks is remembered")
		_, err := c.GetData().ForPath(t.Context(), "/")
		require.NoError(t, err)
	})
}
