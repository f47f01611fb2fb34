package simulation_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// The faults are over, and the members still have no leader. A client that never had a session cannot know whether a
// member that closed its connection had opened a session before; for a client that had a session the same error is a
// violation.
func TestAVisitorBeforeThereIsALeader(t *testing.T) {
	for _, met := range []bool{false, true} {
		t.Run(fmt.Sprint("had a session: ", met), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ens, err := zktest.NewEnsemble(3, zktest.Config{ElectionTime: 3 * time.Second})
				require.NoError(t, err)
				defer ens.Close()
				leaderGoes := func() { ens.Member(ens.Leader()).Stop() }
				if !met {
					leaderGoes()
				}
				c, err := framework.New(ens.ConnectString(), framework.WithDialer(ens.Dial))
				require.NoError(t, err)
				if met {
					_, err := c.Session(t.Context())
					require.NoError(t, err)
					leaderGoes()
				}
				time.Sleep(time.Second)
				require.Negative(t, ens.Leader())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err = c.CloseContext(ctx)
				require.ErrorIs(t, err, framework.ErrUnacknowledged)
				if wrong := closedWrongly(err, met, true); met {
					assert.Equal(t, "does not close", wrong)
				} else {
					assert.Empty(t, wrong)
				}
			})
		})
	}
}
