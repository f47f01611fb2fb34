package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest"
)

// The server replies to an unknown operation before those in flight, and closes the connection. That reply counts; only the
// outcome of the others is unknown.
func TestUnknownOperationBesidesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{Profile: zktest.V36, PeerDelay: 100 * time.Millisecond})
		c, err := New(e.ConnectString(), WithDialer(e.Dial))
		require.NoError(t, err)
		defer c.Close()
		connected(t, c)
		_, err = c.MultiRead().ForReads(t.Context(), ReadData("/")) // the server's release is probed before it
		require.NoError(t, err)
		created := c.Create().WithMode(EphemeralSequential).InBackground().ForPath(t.Context(), "/a-", nil)
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		replied := make(chan wire.Reply, 1)
		s.epoch.wire.Submit(&wire.Call{Op: jute.OpWhoAmI, Done: func(r wire.Reply) { replied <- r }})
		r := <-replied
		assert.NoError(t, r.Err)
		assert.Equal(t, jute.CodeUnimplemented, r.Code)
		_, err = created.Wait(t.Context())
		assert.ErrorIs(t, err, ErrOutcomeUnknown)
	})
}
