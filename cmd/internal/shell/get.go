package shell

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newGet(h host) *cobra.Command {
	var out output
	var form as
	cmd := &cobra.Command{
		Use:   "get PATH",
		Short: "Print the data of a node",
		Long: `Print the data of a node: as they are into a file or a pipe, and as text on a terminal, where
unprintable characters are escaped. With --output json the data are text if they are UTF-8, otherwise base64.`,
		Example: `  curator get /config/app
  curator get /config/app --as json
  curator get /config/app --as gunzip,hex
  curator get /config/app > app.bin`,
		Args: takes(1, 1),
	}
	out.flag(cmd.Flags())
	form.flag(cmd.Flags())
	return h.does(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		var stat framework.Stat
		data, err := form.get(client).StoringStatIn(&stat).ForPath(ctx, args[0])
		if err != nil {
			return err
		}
		if out.table() {
			printed, err := form.printed(data, isTerminal(cmd.OutOrStdout()))
			if err != nil {
				return err
			}
			_, err = io.WriteString(stdout(cmd), printed)
			return err
		}
		c, err := form.content(data)
		if err != nil {
			return err
		}
		return out.json(stdout(cmd), struct {
			Path string `json:"path"`
			content
			Stat metadata `json:"stat"`
		}{args[0], c, metadataOf(stat)})
	})
}
