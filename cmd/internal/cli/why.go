package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/internal/plain"
)

func newWhy(c clientConnection) *cobra.Command {
	s := readCommand{clientConnection: c}
	var root string
	cmd := &cobra.Command{
		Use:   "why PATH",
		Short: "Show why a line does not move",
		Long: `Show why the line at a path, or the lines below it, do not move: the waiters and the holders that they wait
for, across locks, and problems: processes that wait for each other, a holder whose process is silent or
not connected, foreign children, sequence numbers nearly used up, nodes without permission to read.

It reads all lines below --root, since a holder may wait for another lock. It exits with 1 if it finds a
problem; a waiter is not a problem. If processes wait for each other in a ring it reads the nodes again
after 5 s: a ring with the same nodes is a possible deadlock, any other is not.`,
		Example: `  curator why /locks/orders
  curator why /locks/orders --root /locks`,
		Args: s.onePath,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.runWhy(cmd, root) },
	}
	cmd.Flags().StringVar(&root, "root", "/", "look for other locks at this path and below it")
	s.flags(cmd.Flags())
	s.mostNodes(cmd.Flags())
	return cmd
}

func (s *readCommand) runWhy(cmd *cobra.Command, root string) error {
	return s.withClient(cmd, false, func(ctx context.Context) error {
		now, lasting, err := s.readStates(ctx, root)
		if err != nil {
			return err
		}
		return s.printWhy(now, lasting)
	})
}

// recheckDelay is how long a ring has to last until why reports a possible deadlock. Sessions that lock in several
// goroutines are in a ring now and then, until one of them releases.
const recheckDelay = 5 * time.Second

// whySnapshot is what one output is made from: why never mixes two snapshots.
type whySnapshot struct {
	line  inspect.Line // at the path
	graph inspect.Graph
}

// readStates returns the present state, and the part of it that has lasted for recheckDelay: all of it if there is no
// ring.
func (s *readCommand) readStates(ctx context.Context, root string) (now whySnapshot, lasting inspect.Graph, err error) {
	if now, err = s.readSnapshot(ctx, root); err != nil || len(now.graph.Circles) == 0 {
		return now, now.graph, err
	}
	if s.output == "table" {
		printLine(s.cmd.ErrOrStderr(), "sessions wait for each other; checking again in %v, since that may pass", recheckDelay)
	}
	select {
	case <-time.After(recheckDelay):
	case <-ctx.Done():
		return now, lasting, ctx.Err()
	}
	earlier := now.graph.Rings()
	if now, err = s.readSnapshot(ctx, root); err != nil {
		return now, lasting, err
	}
	return now, now.graph.Lasting(earlier), nil
}

// readSnapshot reads the state once. Without permission to read the path, the search from the root may still find its
// line.
func (s *readCommand) readSnapshot(ctx context.Context, root string) (l whySnapshot, err error) {
	err = s.readOnce(ctx, func(ctx context.Context) (err error) {
		l.line, err = inspect.Who(ctx, s.client, s.path, s.readLimits()...)
		if err != nil && !errors.Is(err, framework.ErrNoAuth) {
			return err
		}
		l.graph, err = inspect.Why(ctx, s.client, root, s.readLimits()...)
		switch {
		case errors.Is(err, framework.ErrNoChroot):
			return err
		case errors.Is(err, framework.ErrNoNode) && l.line.Kind == inspect.Nothing && isAtOrBelow(root, s.path):
			return nil // neither root nor path exists; the graph is empty, as without lines
		case errors.Is(err, framework.ErrNoNode):
			return fmt.Errorf("--root %s does not exist: %w", plain.Text(root), err)
		case errors.Is(err, framework.ErrNoAuth) && root != s.path:
			return fmt.Errorf("%w; give --root a path with permission to list, such as %s", err, plain.Text(s.path))
		}
		return err
	})
	return l, err
}

// printWhy prints the part of the graph that concerns the path. The findings are those of lasting.
func (s *readCommand) printWhy(now whySnapshot, lasting inspect.Graph) error {
	line, graph := now.line, now.graph
	why := jsonWhy{Path: s.path, Lines: []jsonLine{}, Chains: [][]jsonEdge{}, Findings: []jsonFinding{},
		Unknown: s.connected.Missing}
	concerned := map[string]bool{s.path: true}
	var here []inspect.Line
	for _, l := range graph.Lines {
		if !isAtOrBelow(l.Path, s.path) {
			continue
		}
		here = append(here, l)
		why.Lines = append(why.Lines, s.jsonLine(l))
		concerned[l.Path] = true
		if chain := graph.Chain(l.Path); len(chain) > 0 {
			why.Chains = append(why.Chains, s.jsonEdges(chain))
			for _, e := range chain {
				concerned[e.Path] = true
			}
		}
	}
	// Whether a ring has a concerned path, by the path of the ring's first edge, which is also the path of its finding.
	rings := map[string]bool{}
	for _, ring := range lasting.Circles {
		for _, e := range ring {
			rings[ring[0].Path] = rings[ring[0].Path] || concerned[e.Path]
		}
	}
	for _, f := range lasting.Findings(s.connected) {
		if concerned[f.Path] || isAtOrBelow(f.Path, s.path) || f.Trouble == inspect.Deadlock && rings[f.Path] ||
			f.Trouble == inspect.Unseen {
			why.Findings = append(why.Findings, jsonFinding{f.Trouble, f.Path, f.Text})
		}
	}
	if len(here) == 0 { // no line at the path or below it; the notes of the node describe its problems
		for _, note := range line.Notes {
			why.Findings = append(why.Findings, jsonFinding{inspect.Wrong, line.Path, plain.Text(note)})
		}
	}
	show := func() error { return s.printJSON(why, why) }
	if s.output == "table" {
		show = func() error { return s.writeTable(func(to io.Writer) { s.whyTable(to, line, here, why) }) }
	}
	if err := show(); err != nil {
		return err
	}
	if len(why.Findings) > 0 {
		return shell.ErrFound
	}
	return nil
}

// isAtOrBelow reports whether a path is at root or below it.
func isAtOrBelow(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

type jsonWhy struct {
	Path     string        `json:"path"`
	Lines    []jsonLine    `json:"lines"`
	Chains   [][]jsonEdge  `json:"chains"` // of each line with waiters: the chain of waits
	Findings []jsonFinding `json:"findings"`
	Unknown  string        `json:"connectionsUnknown,omitempty"` // why the list of connections may be incomplete
}

type jsonEdge struct {
	Path   string          `json:"path"`
	Waiter jsonParticipant `json:"waiter"`
	Ahead  jsonParticipant `json:"ahead"`
	Any    bool            `json:"any,omitempty"` // the release of any one of several holders ends the wait
	text   string
}

type jsonFinding struct {
	Trouble inspect.Trouble `json:"trouble"`
	Path    string          `json:"path"`
	Text    string          `json:"text"`
}

func (s *readCommand) jsonEdges(edges []inspect.Edge) (all []jsonEdge) {
	for _, e := range edges {
		both := s.jsonParticipants([]inspect.Participant{e.Waiter, e.Ahead})
		all = append(all, jsonEdge{Path: e.Path, Waiter: both[0], Ahead: both[1], Any: e.Any,
			text: fmt.Sprintf("%s has waited %s at %s for %s", s.participantText(e.Waiter), ageText(e.Waiter.Since),
				plain.Text(e.Path), s.participantText(e.Ahead))})
	}
	return all
}

// participantText returns a participant's text in a sentence.
func (s *readCommand) participantText(p inspect.Participant) string {
	session := "session " + sessionText(p.Session)
	text := session
	if p.Session == 0 {
		text = "the node " + plain.Text(p.Name) + " that is not ephemeral"
	}
	if name := s.participantName(p); name != session {
		text += " (" + name + ")"
	}
	return text
}

func (s *readCommand) whyTable(to io.Writer, line inspect.Line, here []inspect.Line, why jsonWhy) {
	for _, l := range here {
		fmt.Fprintf(to, "%s: %s\n", plain.Text(l.Path), describeLine(l))
	}
	if len(here) == 0 && line.Kind != "" {
		fmt.Fprintf(to, "%s: %s\n", plain.Text(line.Path), describeLine(line))
	}
	for _, chain := range why.Chains {
		fmt.Fprintln(to)
		for _, e := range chain {
			fmt.Fprintln(to, e.text)
		}
	}
	fmt.Fprintln(to)
	for _, f := range why.Findings {
		fmt.Fprintf(to, "%s: %s: %s\n", f.Trouble, plain.Text(f.Path), f.Text)
	}
	if len(why.Findings) == 0 {
		fmt.Fprintln(to, "no problems found")
	}
	if s.connected.Missing != "" {
		fmt.Fprintf(to, "not checked: processes that are silent or not connected: %s\n", plain.Text(s.connected.Missing))
	}
}
