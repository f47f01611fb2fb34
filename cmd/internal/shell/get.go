package shell

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newGet(h commandHost) *cobra.Command {
	var out outputForm
	var form dataForm
	cmd := &cobra.Command{
		Use:   "get PATH",
		Short: "Print the data of a node",
		Long: `Print the data of a node: as they are into a file or a pipe, and as text on a terminal, where
unprintable characters are escaped. With --output json the data are text if they are UTF-8, otherwise base64.`,
		Example: `  curator get /config/app
  curator get /config/app --as json
  curator get /config/app --as gunzip,hex
  curator get /config/app > app.bin`,
		Args: argumentCount(1, 1),
	}
	out.formFlag(cmd.Flags())
	form.formFlag(cmd.Flags())
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		var stat framework.Stat
		data, err := form.dataBuilder(client).StoringStatIn(&stat).ForPath(ctx, args[0])
		if err != nil {
			return err
		}
		if out.table() {
			printed, err := form.printedData(data, isTerminal(cmd.OutOrStdout()))
			if err != nil {
				return err
			}
			_, err = io.WriteString(stdout(cmd), printed)
			return err
		}
		c, err := form.jsonContentOf(data)
		if err != nil {
			return err
		}
		return out.printJSON(stdout(cmd), struct {
			Path string `json:"path"`
			jsonContent
			Stat statMetadata `json:"stat"`
		}{args[0], c, metadataOf(stat)})
	})
}
