package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/semaphore"
)

func newPermit(c clientConnection) *cobra.Command {
	t := acquireCommand{holdCommand: holdCommand{clientConnection: c}}
	var of int
	cmd := &cobra.Command{
		Use:   "permit PATH --of N [flags] -- COMMAND [ARGUMENT]…",
		Short: "Run a command while holding one of N permits at a path",
		Long: `Run a command while holding one of N permits at a path: at most N such commands run at a time.

All that use a path have to give the same N. The permits are those of Java's InterProcessSemaphoreV2.
Since several are valid at a time there is no fencing token: CURATOR_TOKEN is not set.`,
		Example: `  curator permit /limits/exports --of 3 -- ./export.sh`,
		Args:    t.parseArguments,
		RunE: func(*cobra.Command, []string) error {
			if of < 1 {
				return usageError("--of is needed: how many permits there are, 1 or more")
			}
			return t.acquireAndRun(permitAt(t.path, of, (*semaphore.Semaphore).TryAcquire),
				permitAt(t.path, of, (*semaphore.Semaphore).Acquire))
		},
	}
	cmd.Flags().IntVar(&of, "of", 0, "how many permits there are")
	t.flags(cmd.Flags())
	return cmd
}

func permitAt(
	path string, of int, acquire func(*semaphore.Semaphore, context.Context, int) (*semaphore.Lease, error),
) acquireFunc {
	return func(ctx context.Context, client *framework.Client) (commandHold, error) {
		l, err := acquire(semaphore.New(client, path, of), ctx, 1)
		if err != nil {
			return commandHold{}, err
		}
		return commandHold{Hold: l, node: l.Paths()[0], release: l.Release}, nil
	}
}
