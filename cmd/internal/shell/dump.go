package shell

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
)

func newDump(h commandHost) *cobra.Command {
	var noACL bool
	cmd := &cobra.Command{
		Use:   "dump PATH [FILE]",
		Short: "Write a tree to a file or standard output, for restore",
		Long: `Write a node and everything below it to a file (readable by its owner only) or to standard output, for
"restore": one JSON object in a line, with data in base64 and ACLs. Left out are ephemeral nodes, which a
line names, and /zookeeper, unless PATH is there. Restored nodes begin at version 0; containers and nodes
with a TTL become persistent nodes, since servers do not report their kind.

A dump is no snapshot: each node is read at its own moment. A file is replaced only by a complete dump.`,
		Example: `  curator dump /config config.dump
  curator dump / | gzip > tree.dump.gz`,
		Args: argumentCount(1, 2),
	}
	cmd.Flags().BoolVar(&noACL, "no-acl", false, "leave ACLs out; all clients then have all permissions on restored nodes")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		b := tree.Dump(client)
		if noACL {
			b = b.WithoutACL()
		}
		var p tree.Progress
		err := withOutputFile(cmd, args[1:], func(w io.Writer) (err error) {
			p, err = b.ForPath(ctx, args[0], w)
			return err
		})
		if err != nil {
			return withAdvice(err, errorHint{framework.ErrNoAuth,
				"--no-acl needs only permission to read; or give credentials with --digest-file or --sasl-file"})
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "dumped %d nodes with %d bytes, left out %d ephemeral ones\n", p.Nodes, p.Bytes,
			p.Ephemerals)
		return nil
	})
}

// withOutputFile calls f with standard output, or with a file that takes its name when f has written all.
func withOutputFile(cmd *cobra.Command, file []string, f func(w io.Writer) error) error {
	if len(file) == 0 || file[0] == "-" {
		return f(stdout(cmd))
	}
	temporary, err := os.CreateTemp(filepath.Dir(file[0]), ".curator-*") // 0600
	if err != nil {
		return usageError("%s cannot be written: %w", file[0], err)
	}
	err = f(temporary)
	if err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), file[0])
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

// restoreStep is a step of a restore with --dry-run, in JSON.
type restoreStep struct {
	Path string `json:"path"`
	Step string `json:"step"`
}

func newRestore(h commandHost) *cobra.Command {
	var out outputForm
	var overwrite, dry bool
	cmd := &cobra.Command{
		Use:   "restore PATH [FILE]",
		Short: "Create the nodes of a dump",
		Long: `Create the nodes of a dump, which is read from a file or from standard input, at PATH and below, which
may differ from where it was dumped. Missing parents are created. Nodes that exist with the same data
count as restored; one with other data ends the restore with status 1, unless --overwrite replaces its
data and its ACL. Nodes that are not in the dump stay. Nothing is written to /zookeeper.

A restore is not atomic. One that was cut short can be run again. --dry-run reads the whole dump and
prints what would be done to each node; it changes nothing, and ends with status 1 if the restore would.`,
		Example: `  curator restore /config config.dump --dry-run
  gunzip -c tree.dump.gz | curator restore /copy`,
		Args: argumentCount(1, 2),
	}
	f := cmd.Flags()
	out.formFlag(f)
	f.BoolVar(&overwrite, "overwrite", false, "replace data and ACLs of nodes that exist")
	f.BoolVarP(&dry, "dry-run", "n", false, "print what would be done, and do nothing")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		file := "-"
		if len(args) > 1 {
			file = args[1]
		}
		in, err := openSource(ctx, h, cmd, file)
		if err != nil {
			return err
		}
		defer in.Close()
		b := tree.Restore(client)
		if overwrite {
			b = b.Overwriting()
		}
		hints := []errorHint{
			{framework.ErrNodeExists, "--dry-run lists all such nodes, --overwrite replaces their data and ACLs"},
			{tree.ErrInvalidDump, "what was restored so far stays"},
		}
		if dry {
			return dryRestore(ctx, cmd, &out, b, args[0], in)
		}
		p, err := b.ForPath(ctx, args[0], in)
		if err != nil {
			return withAdvice(err, hints...)
		}
		return out.printValue(cmd, struct {
			Nodes    int64 `json:"nodes"`
			Bytes    int64 `json:"bytes"`
			Existing int64 `json:"existing"`
			LeftOut  int64 `json:"ephemeralsLeftOut"`
		}{p.Nodes, p.Bytes, p.Existing, p.Ephemerals}, func(w io.Writer) {
			fmt.Fprintf(w, "restored %d nodes with %d bytes; %d of them existed; the dump leaves out %d ephemeral ones\n",
				p.Nodes, p.Bytes, p.Existing, p.Ephemerals)
		})
	})
}

func dryRestore(
	ctx context.Context, cmd *cobra.Command, out *outputForm, b tree.RestoreBuilder, path string, in io.Reader,
) error {
	var steps []restoreStep
	conflicts := 0
	w := bufio.NewWriter(stdout(cmd))
	_, err := b.DryRun(func(path string, step tree.RestoreStep) {
		if step == tree.RestoreConflict {
			conflicts++
		}
		p := restoreStep{path, step.String()}
		switch out.form {
		case "table":
			fmt.Fprintf(w, "%-9s  %s\n", p.Step, printableName(path))
		case "jsonl":
			_ = out.printJSON(w, p) // w keeps the error for Flush
		default:
			steps = append(steps, p)
		}
	}).ForPath(ctx, path, in)
	if out.form == "json" && err == nil {
		err = printValues(out, cmd, steps, nil)
	}
	if failed := w.Flush(); err == nil {
		err = failed
	}
	if err == nil && conflicts > 0 {
		err = negativeError("%d nodes exist with other data: the restore would end at the first; --overwrite replaces their "+
			"data and ACLs", conflicts)
	}
	return err
}
