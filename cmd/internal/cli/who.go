package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/internal/plain"
)

func newWho(c clientConnection) *cobra.Command {
	s := readCommand{clientConnection: c}
	var watch bool
	cmd := &cobra.Command{
		Use:   "who PATH",
		Short: "Show the holders and waiters at a path",
		Long: `Show the holders and waiters at a path, in order.

It recognizes by the nodes a lock, a read-write lock, a semaphore, an election, a barrier, a queue, a
counter; those of Java Curator, of this library, of kazoo and of go-zookeeper alike. A mutex may be
the election of a leader selector, whose nodes have the same names. "Since" is the time when the
participant joined the line, by the servers' clock: the time of the grant is recorded nowhere.
The client's address is shown if the servers list it (4lw.commands.whitelist with cons).`,
		Example: `  curator who /locks/orders
  curator who /locks/orders --watch
  curator who /locks/orders --output json`,
		Args: s.onePath,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.runWho(cmd, watch) },
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "run until interrupted, and show every change")
	s.flags(cmd.Flags())
	s.mostNodes(cmd.Flags())
	return cmd
}

func (s *readCommand) runWho(cmd *cobra.Command, watch bool) error {
	return s.withClient(cmd, watch, func(ctx context.Context) error {
		if watch {
			last := ""
			return followStates(ctx, s,
				func(ctx context.Context) iter.Seq2[inspect.Line, error] {
					return inspect.FollowWho(ctx, s.client, s.path, s.readLimits()...)
				},
				func(l inspect.Line) error {
					s.askSessions(ctx, l)
					now := s.jsonLine(l)
					if text := encodeJSON(now); s.output == "jsonl" && text != last {
						last = text
						return s.printChange(now)
					}
					return nil
				}, s.lineTable)
		}
		return s.readOnce(ctx, func(ctx context.Context) error {
			line, err := inspect.Who(ctx, s.client, s.path, s.readLimits()...)
			switch {
			case err != nil:
				return err
			case s.output == "table":
				return s.writeTable(func(to io.Writer) { s.lineTable(to, line) })
			}
			return s.printJSON(s.jsonLine(line), s.jsonLine(line))
		})
	})
}

// lineTable writes a line for people.
func (s *readCommand) lineTable(to io.Writer, l inspect.Line) {
	fmt.Fprintf(to, "%s: %s\n", plain.Text(l.Path), describeLine(l))
	if len(l.Holders)+len(l.Waiting) > 0 {
		rows := [][]string{{"", "SINCE", "SESSION", "CLIENT", "BY", "DATA", "NODE"}}
		for _, p := range l.Holders {
			rows = append(rows, s.participantRow("holds", p))
		}
		for _, p := range l.Waiting {
			rows = append(rows, s.participantRow("waits", p))
		}
		writeColumns(to, rows)
	}
	if l.More > 0 {
		fmt.Fprintf(to, "and %d more\n", l.More)
	}
	if l.ForeignCount > 0 {
		names := make([]string, len(l.Foreign))
		for i, name := range l.Foreign {
			names[i] = plain.Text(name)
		}
		if l.ForeignCount > len(names) {
			names = append(names, "…")
		}
		fmt.Fprintf(to, "foreign children (%d): %s\n", l.ForeignCount, strings.Join(names, ", "))
	}
	for _, note := range l.Notes {
		fmt.Fprintf(to, "note: %s\n", plain.Text(note))
	}
}

// describeLine describes a line.
func describeLine(l inspect.Line) string {
	switch l.Kind {
	case inspect.Nothing:
		return "there is no node"
	case inspect.Idle:
		return "no holder, no waiters"
	case inspect.Leaf:
		return "a node that never had children; if it is a barrier, it is set"
	case inspect.Number:
		if l.Number != nil {
			return "number " + strconv.FormatInt(*l.Number, 10)
		}
		return "number"
	case inspect.Unknown:
		return "unknown kind, with " + countText(l.Children, "child", "children")
	case inspect.Queue:
		return "queue of " + countText(len(l.Waiting)+l.More, "item", "items")
	}
	text := fmt.Sprintf("%s, %d hold, %d wait", l.Kind, len(l.Holders), len(l.Waiting))
	if l.Max > 0 {
		text += fmt.Sprintf(", of %d", l.Max)
	}
	return text
}

func (s *readCommand) participantRow(does string, p inspect.Participant) []string {
	if p.Reader {
		does += " (reads)"
	}
	data := plain.Text(string(p.Data))
	switch {
	case p.Revoked:
		data = "asked to release"
	case p.Err != nil:
		data = "unreadable: " + plain.Text(p.Err.Error())
	case p.Data == nil && p.DataLength > 0:
		data = fmt.Sprintf("(%d bytes)", p.DataLength)
	}
	id := sessionText(p.Session)
	if id == "" {
		id = "none"
	}
	return []string{does, ageText(p.Since), id, orDash(plain.Text(s.connected.By[p.Session].Client)),
		orDash(string(p.Library)), orDash(data), plain.Text(p.Name)}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
