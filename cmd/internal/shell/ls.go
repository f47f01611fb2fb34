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

// child is a node below another, in JSON.
type child struct {
	Name string `json:"name"`
	*metadata
	Error string `json:"error,omitempty"`
}

func newLs(h host) *cobra.Command {
	var out output
	var long bool
	cmd := &cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the children of a node",
		Long: `List the children of a node (default /) by name. With --long each has its version, the length of its
data, the number of its children, when it was modified, and the session if it is ephemeral.`,
		Example: "  curator ls /services\n  curator ls /services --long",
		Args:    takes(0, 1),
	}
	out.flag(cmd.Flags())
	cmd.Flags().BoolVarP(&long, "long", "l", false, "print more about each child; reads each")
	return h.does(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		path := rooted(args)
		list := children
		if long {
			list = childrenLong
		}
		found, err := list(ctx, client, path)
		if err != nil {
			return err
		}
		return all(&out, cmd, found, func(w io.Writer) {
			for _, c := range found {
				switch {
				case c.Error != "":
					fmt.Fprintf(w, "%s\t%s\n", name(c.Name), name(c.Error))
				case c.metadata == nil:
					fmt.Fprintln(w, name(c.Name))
				default:
					fmt.Fprintf(w, "%s\tv%d\t%d bytes\t%d children\t%s", name(c.Name), c.Version, c.Length, c.Children,
						when(c.Modified))
					if c.EphemeralOwner != "" {
						fmt.Fprintf(w, "\t%s", c.EphemeralOwner)
					}
					fmt.Fprintln(w)
				}
			}
		})
	})
}

// rooted is the path in args, or the root.
func rooted(args []string) string {
	if len(args) == 0 {
		return "/"
	}
	return args[0]
}

func children(ctx context.Context, client *framework.Client, path string) (found []child, err error) {
	names, err := client.GetChildren().ForPath(ctx, path)
	slices.Sort(names)
	for _, n := range names {
		found = append(found, child{Name: n})
	}
	return found, err
}

func childrenLong(ctx context.Context, client *framework.Client, path string) (found []child, err error) {
	for node, err := range tree.Walk(client).WithoutData().MaxDepth(1).ForPath(ctx, path) {
		switch {
		case errors.Is(err, framework.ErrNoAuth) && node.Path != path:
			found = append(found, child{Name: base(node.Path), Error: framework.ErrNoAuth.Error()})
		case err != nil:
			return nil, err
		case node.Path != path:
			m := metadataOf(node.Stat)
			found = append(found, child{Name: base(node.Path), metadata: &m})
		}
	}
	return found, nil
}
