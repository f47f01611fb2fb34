package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
)

func newLead(c clientConnection) *cobra.Command {
	u := holdCommand{clientConnection: c}
	var once bool
	cmd := &cobra.Command{
		Use:   "lead PATH [flags] -- COMMAND [ARGUMENT]…",
		Short: "Run a command while leading the election at a path",
		Long: `Run a command while leading the election at a path: of all participants only one runs its command.

The command is started again in each term. A term ends when it is lost, or when the command ends with
status 0; then the participant goes to the end of the line. A command that ends by itself with any
other status, or after a signal passed on by curator, ends curator with that status. The election is
that of Java's LeaderSelector.`,
		Example: `  curator lead /leaders/billing -- ./billing-service
  curator lead /leaders/migrate --once -- ./migrate.sh`,
		Args: u.parseArguments,
		RunE: func(*cobra.Command, []string) error { return u.leadTerms(once) },
	}
	cmd.Flags().BoolVar(&once, "once", false, "exit after the first term, however it ended")
	u.flags(cmd.Flags())
	minHold := cmd.Flags().Lookup("min-hold")
	minHold.DefValue = "1s" // so that a command that ends immediately is not started a hundred times a second
	u.minHold = time.Second
	return cmd
}

// leadTerms takes part in the election until it is asked to end, or the command's end is the program's.
func (u *holdCommand) leadTerms(once bool) error {
	return u.connectAndRun(func(ctx context.Context, stop func()) error {
		for {
			var outcome run.Outcome
			var end error // of the command, if it has run
			selector := leader.NewSelector(u.rejoiningClient(), u.path, func(termed context.Context) error {
				if stop(); ctx.Err() != nil {
					return nil
				}
				term := leader.TermOf(termed)
				outcome, end = u.runCommand(commandHold{Hold: term, node: term.Path(), token: term.FencingToken()})
				return nil
			}, leader.WithLossPolicy(framework.SessionOnly))
			err := selector.RunOnce(ctx)
			stop()
			if end == nil { // the command has not run
				return endCause(ctx, err)
			}
			last := programExitOf(end)
			if once || outcome.Passed != nil || last.code != 0 && !outcome.Told {
				return end
			}
			if outcome.Told {
				printLine(u.cmd.ErrOrStderr(), "%v; waiting for the next term", last)
			}
			ctx, stop = u.untilSignal(context.Background())
		}
	})
}
