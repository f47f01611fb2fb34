package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/internal/plain"
)

func newLocks(c connection) *cobra.Command {
	s := seeing{connection: c}
	var watch bool
	cmd := &cobra.Command{
		Use:   "locks [ROOT]",
		Short: "Find every line at a path and below it, the longest wait first",
		Long: `Find every line at a path (default /) and below it: locks, elections, semaphores, queues and all
other kinds with holders or waiters. The line whose first waiter has waited longest is the first; lines
without waiters are the last. "curator who PATH" shows one of them, "curator why PATH" why it does not move.`,
		Example: `  curator locks /
  curator locks /shop --watch`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"/"}
			}
			return s.onePath(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return s.locks(cmd, watch) },
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "run until interrupted, and show every change")
	s.flags(cmd.Flags())
	s.mostNodes(cmd.Flags())
	return cmd
}

func (s *seeing) locks(cmd *cobra.Command, watch bool) error {
	return s.look(cmd, watch, func(ctx context.Context) error {
		if watch {
			last := map[string]string{}
			return follow(ctx, s,
				func(ctx context.Context) iter.Seq2[inspect.Found, error] {
					return inspect.FollowLocks(ctx, s.client, s.path, s.limits()...)
				},
				func(f inspect.Found) error {
					if s.sessions(ctx, f.Lines...); s.output == "jsonl" {
						return s.printChanges(f, last)
					}
					return nil
				}, s.locksTable)
		}
		return s.once(ctx, func(ctx context.Context) error {
			found, err := inspect.Locks(ctx, s.client, s.path, s.limits()...)
			if err != nil {
				return err
			}
			if s.output == "table" {
				return s.table(func(to io.Writer) { s.locksTable(to, found) })
			}
			all := s.jsonFound(found)
			if s.output == "jsonl" {
				s.warn(found)
			}
			return s.print(all, each(all.Lines)...)
		})
	})
}

type jsonFound struct {
	Lines      []jsonLine `json:"lines"`
	Stopped    string     `json:"stopped,omitempty"` // why not everything was seen
	Unreadable []string   `json:"unreadable,omitempty"`
	Hidden     int        `json:"unreadableCount,omitempty"`
}

func (s *seeing) jsonFound(f inspect.Found) jsonFound {
	all := jsonFound{Lines: []jsonLine{}, Stopped: f.Stopped, Unreadable: f.Unreadable, Hidden: f.UnreadableCount}
	for _, l := range f.Lines {
		all.Lines = append(all.Lines, s.jsonLine(l))
	}
	return all
}

func each[T any](values []T) (all []any) {
	for _, v := range values {
		all = append(all, v)
	}
	return all
}

// printChanges writes a line of JSON for each line that is not as it was last, or is not there any more.
func (s *seeing) printChanges(f inspect.Found, last map[string]string) error {
	here := map[string]bool{}
	for _, l := range f.Lines {
		here[l.Path] = true
		now := s.jsonLine(l)
		if text := encode(now); text != last[l.Path] {
			last[l.Path] = text
			if err := s.printChange(now); err != nil {
				return err
			}
		}
	}
	for path := range last {
		if !here[path] {
			delete(last, path)
			if err := s.printChange(s.jsonLine(inspect.Line{Path: path, Kind: inspect.Idle})); err != nil {
				return err
			}
		}
	}
	return nil
}

// locksTable writes one row for each line.
func (s *seeing) locksTable(to io.Writer, f inspect.Found) {
	if len(f.Lines) == 0 {
		fmt.Fprintf(to, "%s: no holders, no waiters\n", plain.Text(s.path))
	} else {
		rows := [][]string{{"PATH", "KIND", "HOLD", "SINCE", "WAIT", "FOR", "HOLDER"}}
		for _, l := range f.Lines {
			holder := "-"
			if len(l.Holders) > 0 {
				holder = s.name(l.Holders[0])
			}
			rows = append(rows, []string{plain.Text(l.Path), string(l.Kind), strconv.Itoa(len(l.Holders)),
				age(first(l.Holders)), waiting(l), age(first(l.Waiting)), holder})
		}
		columns(to, rows)
	}
	for _, text := range warnings(f) {
		fmt.Fprintln(to, text)
	}
}

// name returns a participant's name for people: its data, or its address.
func (s *seeing) name(p inspect.Participant) string {
	switch client := s.connected.By[p.Session].Client; {
	case len(p.Data) > 0 && !p.Revoked:
		return plain.Text(string(p.Data))
	case client != "":
		return plain.Text(client)
	}
	return "session " + session(p.Session)
}

func waiting(l inspect.Line) string {
	text := strconv.Itoa(len(l.Waiting))
	if l.More > 0 {
		text += "+" + strconv.Itoa(l.More)
	}
	return text
}

// first is since when the first of some has been there.
func first(all []inspect.Participant) (since time.Time) {
	for _, p := range all {
		if !p.Since.IsZero() && (since.IsZero() || p.Since.Before(since)) {
			since = p.Since
		}
	}
	return since
}

// warnings describe the parts of the tree that were not read.
func warnings(f inspect.Found) (all []string) {
	if f.Stopped != "" {
		all = append(all, "there may be more: "+f.Stopped+"; give a root further down, or --nodes")
	}
	if f.UnreadableCount > 0 {
		all = append(all, many(f.UnreadableCount, "node", "nodes")+" without permission to list, the first is "+
			plain.Text(f.Unreadable[0]))
	}
	return all
}

func (s *seeing) warn(f inspect.Found) {
	for _, text := range warnings(f) {
		say(s.cmd.ErrOrStderr(), "%s", text)
	}
}
