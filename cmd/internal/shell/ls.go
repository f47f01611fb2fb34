package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
)

// childNode is a node below another, in JSON.
type childNode struct {
	Name string `json:"name"`
	*statMetadata
	Error string `json:"error,omitempty"`
}

func newLs(h commandHost) *cobra.Command {
	var out outputForm
	var long bool
	cmd := &cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the children of a node",
		Long: `List the children of a node (default /) by name. With --long each has its version, the length of its
data, the number of its children, when it was modified, and the session if it is ephemeral.`,
		Example: "  curator ls /services\n  curator ls /services --long",
		Args:    argumentCount(0, 1),
	}
	out.formFlag(cmd.Flags())
	cmd.Flags().BoolVarP(&long, "long", "l", false, "print more about each child; reads each")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		path := pathOrRoot(args)
		list := listChildren
		if long {
			list = listChildrenLong
		}
		found, err := list(ctx, client, path)
		if err != nil {
			return err
		}
		return printValues(&out, cmd, found, func(w io.Writer) {
			for _, c := range found {
				switch {
				case c.Error != "":
					fmt.Fprintf(w, "%s\t%s\n", printableName(c.Name), printableName(c.Error))
				case c.statMetadata == nil:
					fmt.Fprintln(w, printableName(c.Name))
				default:
					fmt.Fprintf(w, "%s\tv%d\t%d bytes\t%d children\t%s", printableName(c.Name), c.Version, c.Length, c.Children,
						timeText(c.Modified))
					if c.EphemeralOwner != "" {
						fmt.Fprintf(w, "\t%s", c.EphemeralOwner)
					}
					fmt.Fprintln(w)
				}
			}
		})
	})
}

// pathOrRoot is the path in args, or the root.
func pathOrRoot(args []string) string {
	if len(args) == 0 {
		return "/"
	}
	return args[0]
}

func listChildren(ctx context.Context, client *framework.Client, path string) (found []childNode, err error) {
	names, err := client.GetChildren().ForPath(ctx, path)
	slices.Sort(names)
	for _, n := range names {
		found = append(found, childNode{Name: n})
	}
	return found, err
}

func listChildrenLong(ctx context.Context, client *framework.Client, path string) (found []childNode, err error) {
	for node, err := range tree.Walk(client).WithoutData().MaxDepth(1).ForPath(ctx, path) {
		switch {
		case errors.Is(err, framework.ErrNoAuth) && node.Path != path:
			found = append(found, childNode{Name: baseName(node.Path), Error: framework.ErrNoAuth.Error()})
		case err != nil:
			return nil, err
		case node.Path != path:
			m := metadataOf(node.Stat)
			found = append(found, childNode{Name: baseName(node.Path), statMetadata: &m})
		}
	}
	return found, nil
}
