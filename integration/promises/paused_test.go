package promises

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// P1: a holder whose whole process was paused for longer than its session lives does not consider its hold valid when
// it continues.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	const runs = 6
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, MaxSessionTimeout: timeout})
	var all sync.WaitGroup
	for run := range runs {
		all.Go(func() { pausedHolder(t, node, fmt.Sprintf("/paused/%d", run)) })
	}
	all.Wait()
}

func pausedHolder(t *testing.T, node *zkserver.Node, path string) {
	ctx := kit.Context(t)
	held, err := kit.StartHolder(t, node.Addr(), path, timeout)
	if !assert.NoError(t, err) {
		return
	}
	waiter := mutex.New(kit.Dial(t, node.Addr()), path)
	granted := kit.Call(t, ctx, func(ctx context.Context) (time.Time, error) {
		lock, err := waiter.Acquire(ctx)
		if err == nil {
			assert.Greater(t, lock.FencingToken(), held.Token)
		}
		return time.Now(), err
	})
	time.Sleep(rand.N(time.Second))
	assert.NoError(t, held.Signal(syscall.SIGSTOP))
	at := <-granted
	time.Sleep(rand.N(time.Second))
	resumed := time.Now()
	assert.NoError(t, held.Signal(syscall.SIGCONT))

	ended, cause, valid := held.Ended(t)
	assert.NotEmpty(t, valid, "what the first Valid after the pause said")
	assert.NotContains(t, valid, "true")
	t.Logf("granted %v before the process went on; its context ended %v after: %s", resumed.Sub(at),
		ended.Sub(resumed), cause)
	// The server's last message to the session may have been the delete of the node.
	assert.True(t, strings.Contains(cause, framework.ErrSessionLost.Error()) ||
		strings.Contains(cause, framework.ErrNodeDeleted.Error()), cause)
	assert.Less(t, ended.Sub(resumed), kit.Slack())
}
