package shell

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newSet(h host) *cobra.Command {
	var out output
	var from source
	version := int32(-1)
	cmd := &cobra.Command{
		Use:   "set PATH [DATA]",
		Short: "Replace the data of a node",
		Long: `Replace the data of a node that exists, and print its new version. With --version it is replaced only
if no other client has changed it since that version. Any bytes can be stored.`,
		Example: `  curator set /config/app '{"level":3}'
  curator set /config/app --file app.json --version 7
  gzip -c app.json | curator set /config/app --file -`,
		Args: takes(1, 2),
	}
	out.flag(cmd.Flags())
	from.flag(cmd.Flags())
	cmd.Flags().Int32Var(&version, "version", version, "replace only this version of the data (-1: any)")
	return h.does(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		if len(args) == 1 && from.file == "" {
			return usage("no data: give them as an argument (%s for none), or with --file", `""`)
		}
		data, err := from.data(ctx, h, cmd, args[1:])
		if err != nil {
			return err
		}
		stat, err := client.SetData().WithVersion(version).ForPath(ctx, args[0], data)
		if err != nil {
			return advised(err, hint{framework.ErrNoNode, `"create PATH" makes a node`})
		}
		return out.one(cmd, struct {
			Path string   `json:"path"`
			Stat metadata `json:"stat"`
		}{args[0], metadataOf(stat)}, func(w io.Writer) { fmt.Fprintln(w, "version", stat.Version) })
	})
}
