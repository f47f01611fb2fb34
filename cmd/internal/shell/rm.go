package shell

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
)

// deletedNode is a node that a deletion would delete, in JSON.
type deletedNode struct {
	Path      string `json:"path"`
	Ephemeral bool   `json:"ephemeral,omitempty"`
}

func newRm(h commandHost) *cobra.Command {
	var out outputForm
	var recursive, yes, dry bool
	version := int32(-1)
	cmd := &cobra.Command{
		Use:   "rm PATH",
		Short: "Delete a node, or a tree",
		Long: `Delete a node; with --recursive everything below it, too. Before a tree is deleted curator prints
the number of nodes and asks; without a terminal it needs --yes. A tree is not deleted atomically: other
clients may see a part of it deleted, and nodes that they add in the meantime are deleted, too.

With --version nothing is deleted if the node has another version. --dry-run prints what would be
deleted, and deletes nothing.`,
		Example: `  curator rm /config/old
  curator rm /jobs --recursive --dry-run
  curator rm /jobs --recursive --yes`,
		Args: argumentCount(1, 1),
	}
	f := cmd.Flags()
	out.formFlag(f)
	f.BoolVarP(&recursive, "recursive", "r", false, "delete everything below the node, too")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask before a tree is deleted")
	f.BoolVarP(&dry, "dry-run", "n", false, "print what would be deleted, and delete nothing")
	f.Int32Var(&version, "version", version, "delete only this version of the node (-1: any)")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		path := args[0]
		switch {
		case dry:
			return wouldDelete(ctx, cmd, &out, client, path, version, recursive)
		case !recursive:
			err := client.Delete().WithVersion(version).ForPath(ctx, path)
			return withAdvice(err, errorHint{framework.ErrNotEmpty, "--recursive deletes a node with everything below it"})
		case !yes:
			if !isTerminal(cmd.InOrStdin()) {
				return usageError("nothing was deleted: without a terminal to ask on, --recursive needs --yes")
			}
			found, err := listSubtree(ctx, client, path)
			if err != nil {
				return err
			}
			ephemeral := 0
			for _, d := range found {
				if d.Ephemeral {
					ephemeral++
				}
			}
			if err := askUser(ctx, cmd, fmt.Sprintf("Delete %s and %d nodes below it, %d of them ephemeral? [y/N] ",
				printableName(path), len(found)-1, ephemeral)); err != nil {
				return err
			}
		}
		if version != -1 {
			return client.Delete().DeletingChildrenIfNeeded().WithVersion(version).ForPath(ctx, path)
		}
		if stat, err := client.CheckExists().ForPath(ctx, path); err == nil && stat == nil {
			return fmt.Errorf("%s: %w", printableName(path), framework.ErrNoNode) // as without --recursive
		}
		return tree.Delete(ctx, client, path)
	})
}

// listSubtree lists a node and everything below it.
func listSubtree(ctx context.Context, client *framework.Client, path string) (found []deletedNode, err error) {
	for node, err := range tree.Walk(client).WithoutData().ForPath(ctx, path) {
		if err != nil {
			return nil, err
		}
		found = append(found, deletedNode{node.Path, node.Stat.EphemeralOwner != 0})
	}
	return found, nil
}

func wouldDelete(
	ctx context.Context, cmd *cobra.Command, out *outputForm, client *framework.Client, path string, version int32,
	recursive bool,
) error {
	stat, err := client.CheckExists().ForPath(ctx, path)
	switch {
	case err != nil:
		return err
	case stat == nil:
		return fmt.Errorf("%s: %w", printableName(path), framework.ErrNoNode)
	case version != -1 && stat.Version != version:
		return fmt.Errorf("%s has version %d: %w", printableName(path), stat.Version, framework.ErrBadVersion)
	case stat.NumChildren > 0 && !recursive:
		return withAdvice(fmt.Errorf("%s: %w", printableName(path), framework.ErrNotEmpty),
			errorHint{framework.ErrNotEmpty, "--recursive deletes a node with everything below it"})
	}
	found, err := listSubtree(ctx, client, path)
	if err != nil {
		return err
	}
	return printValues(out, cmd, found, func(w io.Writer) {
		for _, d := range found {
			fmt.Fprintln(w, "would delete", printableName(d.Path))
		}
	})
}
