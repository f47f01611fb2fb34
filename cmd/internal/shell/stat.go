package shell

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newStat(h commandHost) *cobra.Command {
	var out outputForm
	cmd := &cobra.Command{
		Use:   "stat PATH",
		Short: "Print the stat of a node",
		Long: `Print the stat of a node: versions, times, transactions and the session if it is ephemeral. The status
is 1 if the node does not exist.`,
		Example: "  curator stat /config/app\n  curator stat /config/app >/dev/null && echo it exists",
		Args:    argumentCount(1, 1),
	}
	out.formFlag(cmd.Flags())
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		stat, err := client.CheckExists().ForPath(ctx, args[0])
		if err != nil {
			return err
		}
		if stat == nil {
			return fmt.Errorf("%s: %w", printableName(args[0]), framework.ErrNoNode)
		}
		m := metadataOf(*stat)
		return out.printValue(cmd, struct {
			Path string `json:"path"`
			statMetadata
		}{args[0], m}, func(w io.Writer) {
			fmt.Fprintf(w, "version\t%d\n", m.Version)
			fmt.Fprintf(w, "length\t%d bytes\n", m.Length)
			fmt.Fprintf(w, "children\t%d\n", m.Children)
			fmt.Fprintf(w, "created\t%s\ttransaction %s\n", timeText(m.Created), m.Czxid)
			fmt.Fprintf(w, "modified\t%s\ttransaction %s\n", timeText(m.Modified), m.Mzxid)
			fmt.Fprintf(w, "children changed\t%d times\ttransaction %s\n", m.ChildVersion, m.Pzxid)
			fmt.Fprintf(w, "ACL changed\t%d times\n", m.ACLVersion)
			if m.EphemeralOwner != "" {
				fmt.Fprintf(w, "ephemeral\tof session %s\n", m.EphemeralOwner)
			}
		})
	})
}
