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

func newLocks(c clientConnection) *cobra.Command {
	s := readCommand{clientConnection: c}
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
		RunE: func(cmd *cobra.Command, _ []string) error { return s.runLocks(cmd, watch) },
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "run until interrupted, and show every change")
	s.flags(cmd.Flags())
	s.mostNodes(cmd.Flags())
	return cmd
}

func (s *readCommand) runLocks(cmd *cobra.Command, watch bool) error {
	return s.withClient(cmd, watch, func(ctx context.Context) error {
		if watch {
			last := map[string]string{}
			return followStates(ctx, s,
				func(ctx context.Context) iter.Seq2[inspect.Found, error] {
					return inspect.FollowLocks(ctx, s.client, s.path, s.readLimits()...)
				},
				func(f inspect.Found) error {
					if s.askSessions(ctx, f.Lines...); s.output == "jsonl" {
						return s.printChanges(f, last)
					}
					return nil
				}, s.locksTable)
		}
		return s.readOnce(ctx, func(ctx context.Context) error {
			found, err := inspect.Locks(ctx, s.client, s.path, s.readLimits()...)
			if err != nil {
				return err
			}
			if s.output == "table" {
				return s.writeTable(func(to io.Writer) { s.locksTable(to, found) })
			}
			all := s.jsonFound(found)
			if s.output == "jsonl" {
				s.printWarnings(found)
			}
			return s.printJSON(all, mapEach(all.Lines)...)
		})
	})
}

type jsonFound struct {
	Lines      []jsonLine `json:"lines"`
	Stopped    string     `json:"stopped,omitempty"` // why not everything was seen
	Unreadable []string   `json:"unreadable,omitempty"`
	Hidden     int        `json:"unreadableCount,omitempty"`
}

func (s *readCommand) jsonFound(f inspect.Found) jsonFound {
	all := jsonFound{Lines: []jsonLine{}, Stopped: f.Stopped, Unreadable: f.Unreadable, Hidden: f.UnreadableCount}
	for _, l := range f.Lines {
		all.Lines = append(all.Lines, s.jsonLine(l))
	}
	return all
}

func mapEach[T any](values []T) (all []any) {
	for _, v := range values {
		all = append(all, v)
	}
	return all
}

// printChanges writes a line of JSON for each line that is not as it was last, or is not there any more.
func (s *readCommand) printChanges(f inspect.Found, last map[string]string) error {
	here := map[string]bool{}
	for _, l := range f.Lines {
		here[l.Path] = true
		now := s.jsonLine(l)
		if text := encodeJSON(now); text != last[l.Path] {
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
func (s *readCommand) locksTable(to io.Writer, f inspect.Found) {
	if len(f.Lines) == 0 {
		fmt.Fprintf(to, "%s: no holders, no waiters\n", plain.Text(s.path))
	} else {
		rows := [][]string{{"PATH", "KIND", "HOLD", "SINCE", "WAIT", "FOR", "HOLDER"}}
		for _, l := range f.Lines {
			holder := "-"
			if len(l.Holders) > 0 {
				holder = s.participantName(l.Holders[0])
			}
			rows = append(rows, []string{plain.Text(l.Path), string(l.Kind), strconv.Itoa(len(l.Holders)),
				ageText(firstSince(l.Holders)), waitingText(l), ageText(firstSince(l.Waiting)), holder})
		}
		writeColumns(to, rows)
	}
	for _, text := range readWarnings(f) {
		fmt.Fprintln(to, text)
	}
}

// participantName returns a participant's name for people: its data, or its address.
func (s *readCommand) participantName(p inspect.Participant) string {
	switch client := s.connected.By[p.Session].Client; {
	case len(p.Data) > 0 && !p.Revoked:
		return plain.Text(string(p.Data))
	case client != "":
		return plain.Text(client)
	}
	return "session " + sessionText(p.Session)
}

func waitingText(l inspect.Line) string {
	text := strconv.Itoa(len(l.Waiting))
	if l.More > 0 {
		text += "+" + strconv.Itoa(l.More)
	}
	return text
}

// firstSince is since when the first of some has been there.
func firstSince(all []inspect.Participant) (since time.Time) {
	for _, p := range all {
		if !p.Since.IsZero() && (since.IsZero() || p.Since.Before(since)) {
			since = p.Since
		}
	}
	return since
}

// readWarnings describe the parts of the tree that were not read.
func readWarnings(f inspect.Found) (all []string) {
	if f.Stopped != "" {
		all = append(all, "there may be more: "+f.Stopped+"; give a root further down, or --nodes")
	}
	if f.UnreadableCount > 0 {
		all = append(all, countText(f.UnreadableCount, "node", "nodes")+" without permission to list, the first is "+
			plain.Text(f.Unreadable[0]))
	}
	return all
}

func (s *readCommand) printWarnings(f inspect.Found) {
	for _, text := range readWarnings(f) {
		printLine(s.cmd.ErrOrStderr(), "%s", text)
	}
}
