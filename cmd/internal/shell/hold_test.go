package shell_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cmd/internal/shell"
)

func TestHold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	hold := func() *running {
		r := b.start("create", "/e", "x", "--ephemeral", "--hold")
		eventually(t, "created", func() bool { return r.out.String() == "/e\n" })
		return r
	}
	r := hold()
	require.NoError(t, b.srv.Set("/e", []byte("changed by somebody else")))
	r.stop()
	require.ErrorIs(t, r.end(), context.Canceled)
	assert.False(t, b.srv.Exists("/e"), "its session was closed")

	r = hold()
	require.NoError(t, b.srv.Delete("/e"))
	err := r.end()
	require.ErrorIs(t, err, shell.ErrLost)
	assert.ErrorContains(t, err, "another client has deleted it")

	r = hold()
	b.srv.Cut(0) // the client reconnects in the same session
	eventually(t, "the session is there", func() bool { return len(b.srv.Sessions()) == 1 })
	assert.True(t, b.srv.Exists("/e"))
	for _, s := range b.srv.Sessions() {
		b.srv.Expire(s.ID)
	}
	require.ErrorIs(t, r.end(), shell.ErrLost)
}
