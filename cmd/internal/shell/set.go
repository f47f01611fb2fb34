package shell

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newSet(h commandHost) *cobra.Command {
	var out outputForm
	var from dataSource
	version := int32(-1)
	cmd := &cobra.Command{
		Use:   "set PATH [DATA]",
		Short: "Replace the data of a node",
		Long: `Replace the data of a node that exists, and print its new version. With --version it is replaced only
if no other client has changed it since that version. Any bytes can be stored.`,
		Example: `  curator set /config/app '{"level":3}'
  curator set /config/app --file app.json --version 7
  gzip -c app.json | curator set /config/app --file -`,
		Args: argumentCount(1, 2),
	}
	out.formFlag(cmd.Flags())
	from.dataFlag(cmd.Flags())
	cmd.Flags().Int32Var(&version, "version", version, "replace only this version of the data (-1: any)")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		if len(args) == 1 && from.file == "" {
			return usageError("no data: give them as an argument (%s for none), or with --file", `""`)
		}
		data, err := from.readData(ctx, h, cmd, args[1:])
		if err != nil {
			return err
		}
		stat, err := client.SetData().WithVersion(version).ForPath(ctx, args[0], data)
		if err != nil {
			return withAdvice(err, errorHint{framework.ErrNoNode, `"create PATH" makes a node`})
		}
		return out.printValue(cmd, struct {
			Path string       `json:"path"`
			Stat statMetadata `json:"stat"`
		}{args[0], metadataOf(stat)}, func(w io.Writer) { fmt.Fprintln(w, "version", stat.Version) })
	})
}
