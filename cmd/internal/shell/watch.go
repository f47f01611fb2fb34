package shell

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
)

// watchChange is one line of watch, in JSON.
type watchChange struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"` // created, changed, deleted, unreadable, connection
	Path   string    `json:"path,omitempty"`
	jsonContent
	Stat  *statMetadata `json:"stat,omitempty"`
	State string        `json:"state,omitempty"`
	Error string        `json:"error,omitempty"`
}

func newWatch(h commandHost) *cobra.Command {
	var out outputForm
	var form dataForm
	var once bool
	depth := -1
	cmd := &cobra.Command{
		Use:   "watch PATH",
		Short: "Print changes of a node and of everything below it as they come",
		Long: `Print changes of a node and of everything below it as they come, until it is interrupted. The node
need not exist. When it has read all nodes, it prints that on standard error; from then on each change is
printed, also those that happened while there was no connection. Of changes that follow one another
faster than they can be read only the last is printed. Changes of an ACL are not reported.

With --output jsonl each change is a JSON object, with the data.`,
		Example: `  curator watch /config
  curator watch /config --output jsonl --as json
  curator watch /config/app --depth 0 --once`,
		Args: argumentCount(1, 1),
	}
	f := cmd.Flags()
	out.formFlag(f)
	form.formFlag(f)
	f.BoolVar(&once, "once", false, "end with status 0 after the first change")
	f.IntVar(&depth, "depth", depth, "how many levels below the node (-1: all, 0: the node alone)")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		if out.form == "json" {
			return usageError("changes have no end, so they are no single JSON value: use --output jsonl")
		}
		var opts []cache.TreeOption
		if depth >= 0 {
			opts = append(opts, cache.WithMaxDepth(depth))
		}
		if form.gunzip {
			opts = append(opts, cache.WithCompressedData())
		}
		c, err := cache.NewTree(client, args[0], opts...)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		w, known := stdout(cmd), false
		for event, err := range c.Events(ctx) {
			switch {
			case err != nil:
				return err
			case event.Type == cache.Initialized:
				known = true
				fmt.Fprintf(cmd.ErrOrStderr(), "watching %s: %d nodes now\n", printableName(args[0]), c.Len())
				continue
			case !known && event.Type != cache.Failed:
				continue
			}
			ch := changeOf(event, form)
			if err := ch.print(w, &out); err != nil {
				return err
			}
			if once && known && ch.Stat != nil {
				return nil
			}
		}
		return ctx.Err()
	})
}

func changeOf(event cache.Event, form dataForm) watchChange {
	ch := watchChange{Time: time.Now().UTC(), Path: event.Path}
	node := event.New
	switch event.Type {
	case cache.Created:
		ch.Change = "created"
	case cache.Changed:
		ch.Change = "changed"
	case cache.Deleted:
		ch.Change, node = "deleted", event.Old
	case cache.Failed:
		ch.Change, ch.Error = "unreadable", event.Err.Error()
	case cache.ConnectionChanged:
		ch.Change, ch.State = "connection", event.State.State.String()
	}
	if node != nil {
		m := metadataOf(node.Stat)
		ch.Stat = &m
		if event.Type != cache.Deleted {
			var err error
			if ch.jsonContent, err = form.jsonContentOf(node.Data); err != nil {
				ch.Error = err.Error()
			}
		}
	}
	return ch
}

// shown bounds the bytes of data in a line for people.
const shown = 200

func (ch watchChange) print(w io.Writer, out *outputForm) error {
	if !out.table() {
		return out.printJSON(w, ch)
	}
	s := timeText(ch.Time) + "  " + ch.Change
	if ch.Path != "" {
		s += " " + printableName(ch.Path)
	}
	if ch.Stat != nil && ch.Change != "deleted" {
		s += fmt.Sprintf("  v%d, %d bytes", ch.Stat.Version, ch.Stat.Length)
	}
	switch {
	case ch.Error != "":
		s += ": " + printableName(ch.Error)
	case ch.State != "":
		s += ": " + printableName(ch.State)
	case ch.Text != nil && *ch.Text != "":
		s += ": " + firstPart(*ch.Text, shown)
	case ch.Hex != nil:
		s += ": " + firstPart(*ch.Hex, shown)
	case ch.JSON != nil:
		s += ": " + firstPart(string(ch.JSON), shown)
	case ch.Base64 != "":
		s += ": base64 " + firstPart(ch.Base64, shown)
	}
	_, err := fmt.Fprintln(w, s)
	return err
}
