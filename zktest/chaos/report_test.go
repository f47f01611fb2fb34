package chaos_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// The story has the client's log lines, the errors reported to callers, the operations of a transaction, and one line
// for a repetition.
func TestTheStoryTells(t *testing.T) {
	quiet := chaos.Config{
		Count: 1, Members: []int{1}, Profiles: []zktest.Profile{zktest.V39}, Trouble: 30 * time.Second, Shrink: -1,
		Plan: func(p *chaos.Plan) { p.Faults = nil },
	}
	found := chaos.Find(t, func(w *chaos.World) {
		process(w, "p", func(p *chaos.Process) {
			told := framework.Hooks{Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
				return func(end framework.OperationEnd) {
					if errors.Is(end.Err, framework.ErrOutcomeUnknown) {
						p.Logf("was told of %s %s: %v", op.Name, op.Path, end.Err)
					}
				}
			}}
			client, err := framework.New(w.ConnectString(), framework.WithDialer(p.Dial),
				framework.WithLogger(p.Logger()), framework.WithHooks(told))
			require.NoError(w, err)
			defer client.Close()
			for range 5 {
				_, _ = client.Create().ForPath(p.Context(), "/no/parent", nil)
				time.Sleep(time.Second)
			}
			ops := client.TransactionOp()
			_, err = client.Transaction(p.Context(), ops.Create().ForPath("/a", nil), ops.Delete().ForPath("/a"))
			require.NoError(w, err)
			w.Ensemble().Member(0).Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
			_, err = client.Create().ForPath(p.Context(), "/unknown", nil)
			w.Violate("told", "%v", err)
		})
	}, quiet)
	require.NotNil(t, found)
	report := found.Report
	assert.Contains(t, report, "level=INFO msg=connected epoch=1 ")
	assert.NotContains(t, report, "time=20", "the story has times of its own")
	assert.Contains(t, report, `level=WARN msg="connection lost, session suspended; reconnecting"`)
	assert.Contains(t, report, "] multi [create2 /a, delete /a]\n")
	assert.Regexp(t, `\] create2 /no/parent: zktest: no node \(-101\) \([45] times, until 4\.`, report)
	assert.Contains(t, report, "was told of create /unknown: ")
}

// A strike at a process without a connection strikes all processes, since its next session has no id yet. The story
// reports that.
func TestAStrikeWithoutASession(t *testing.T) {
	cfg := with(chaos.Fault{
		Kind: chaos.Strike, Op: zktest.OpCreate2, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp,
		At: 10 * time.Second, Lasts: 10 * time.Second,
	})
	cfg.Count = 1
	found := chaos.Find(t, func(w *chaos.World) {
		process(w, "without", func(*chaos.Process) {})
		process(w, "other", func(p *chaos.Process) {
			client := connect(w, p)
			defer client.Close()
			time.Sleep(11 * time.Second)
			_, err := client.Create().ForPath(p.Context(), "/a", nil)
			require.NoError(w, err)
			w.Violate("told", "%v", err)
		})
	}, cfg)
	require.NotNil(t, found)
	assert.Contains(t, found.Report, "without-0's create2 ReplyError, 1 times, for 10s")
	assert.Contains(t, found.Report, "without-0 has no session now: requests of all processes are struck")
	assert.Contains(t, found.Report, "create2: zktest: throttled")
}
