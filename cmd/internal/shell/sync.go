package shell

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newSync(h commandHost) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync [PATH]",
		Short: "Wait until the connected server has caught up with the leader",
		Long: `Wait until the connected server has caught up with the leader, so that the next reads of this
session contain all earlier writes. That is for the prompt and its scripts: each other command has its
own session, which may be at another server.`,
		Args: argumentCount(0, 1),
	}
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		return client.Sync().ForPath(ctx, pathOrRoot(args))
	})
}
