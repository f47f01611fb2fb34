package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
)

// treeNode is a node of a tree, in JSON.
type treeNode struct {
	Path string `json:"path"`
	*statMetadata
	Error string `json:"error,omitempty"`
}

func newTree(h commandHost) *cobra.Command {
	var out outputForm
	depth := -1
	cmd := &cobra.Command{
		Use:   "tree [PATH]",
		Short: "Print a node and everything below it",
		Long: `Print a node (default /) and everything below it, with the length of data. It is no snapshot: each node
is read at its own moment. Nodes without permission to read are named, and the status is then 1. With
--output jsonl nodes are printed as they are read, parents first, in any number.`,
		Example: "  curator tree /services\n  curator tree / --depth 2",
		Args:    argumentCount(0, 1),
	}
	out.formFlag(cmd.Flags())
	cmd.Flags().IntVar(&depth, "depth", depth, "how many levels below the node (-1: all)")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		path := pathOrRoot(args)
		var nodes []treeNode
		unread, w := 0, stdout(cmd)
		for node, err := range tree.Walk(client).WithoutData().MaxDepth(depth).ForPath(ctx, path) {
			n := treeNode{Path: node.Path}
			switch {
			case errors.Is(err, framework.ErrNoAuth) && node.Path != path:
				n.Error = framework.ErrNoAuth.Error()
				unread++
			case err != nil:
				return err
			default:
				m := metadataOf(node.Stat)
				n.statMetadata = &m
			}
			if out.form == "jsonl" {
				if err := out.printJSON(w, n); err != nil {
					return err
				}
				continue
			}
			nodes = append(nodes, n)
		}
		if out.form != "jsonl" {
			if err := out.printValue(cmd, nodes, func(w io.Writer) { drawTree(w, nodes) }); err != nil {
				return err
			}
		}
		if unread > 0 {
			return negativeError("%d nodes, and what is below them, cannot be read: no permission", unread)
		}
		return nil
	})
}

// drawTree draws nodes, the root first, each below its parent.
func drawTree(w io.Writer, nodes []treeNode) {
	root := nodes[0].Path
	slices.SortFunc(nodes, func(a, b treeNode) int { return comparePaths(a.Path, b.Path) })
	for _, n := range nodes {
		text, levels := printableName(baseName(n.Path)), strings.Count(strings.TrimPrefix(n.Path, strings.TrimSuffix(root, "/")), "/")
		if n.Path == root {
			text, levels = printableName(root), 0
		}
		fmt.Fprint(w, strings.Repeat("  ", levels), text)
		switch {
		case n.Error != "":
			fmt.Fprintf(w, "  (%s)", n.Error)
		case n.EphemeralOwner != "":
			fmt.Fprintf(w, "  %d bytes, ephemeral of %s", n.Length, n.EphemeralOwner)
		case n.Length > 0:
			fmt.Fprintf(w, "  %d bytes", n.Length)
		}
		fmt.Fprintln(w)
	}
}

// comparePaths orders each node directly before its descendants: "/" is less than any other character.
func comparePaths(a, b string) int {
	for i := 0; i < min(len(a), len(b)); i++ {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

func baseName(path string) string { return path[strings.LastIndex(path, "/")+1:] }
