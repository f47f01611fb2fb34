package shell

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newSync(h host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync [PATH]",
		Short: "Wait until the connected server has caught up with the leader",
		Long: `Wait until the connected server has caught up with the leader, so that the next reads of this
session contain all earlier writes. That is for the prompt and its scripts: each other command has its
own session, which may be at another server.`,
		Args: takes(0, 1),
	}
	return h.does(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		return client.Sync().ForPath(ctx, rooted(args))
	})
}
