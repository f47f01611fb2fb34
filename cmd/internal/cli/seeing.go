package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
)

// readCommand is shared by the commands that only read: who, locks, why and doctor.
type readCommand struct {
	clientConnection
	output string
	nodes  int

	cmd       *cobra.Command
	path      string
	client    *framework.Client
	connected inspect.Connected
	asked     time.Time       // when the servers were asked for their connections
	without   *inspect.Report // of a client that the servers do not serve
}

func (s *readCommand) flags(f *pflag.FlagSet) {
	f.StringVarP(&s.output, "output", "o", "table", "table, json, or jsonl: one line of JSON for each result")
	s.clientConnection.flags(f)
}

func (s *readCommand) mostNodes(f *pflag.FlagSet) {
	f.IntVar(&s.nodes, "nodes", 10_000, "read at most this many nodes")
}

func (s *readCommand) readLimits() []inspect.Option {
	return []inspect.Option{inspect.WithMostNodes(s.nodes)}
}

// onePath takes PATH.
func (s *readCommand) onePath(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("one path is needed, %d are given: write %s", len(args), cmd.CommandPath()+" "+
			strings.Fields(cmd.Use)[1])
	}
	s.path = args[0]
	return nil
}

// withClient connects and calls f with a context that ends when a signal asks to end. watch means that f runs until then.
func (s *readCommand) withClient(cmd *cobra.Command, watch bool, f func(ctx context.Context) error) error {
	return s.withClientBy(s.openClient, cmd, watch, f)
}

// withClientBy is look with another way to connect.
func (s *readCommand) withClientBy(
	open func(context.Context, *cobra.Command) (*framework.Client, error), cmd *cobra.Command, watch bool,
	f func(ctx context.Context) error,
) error {
	s.cmd = cmd
	switch {
	case s.output != "table" && s.output != "json" && s.output != "jsonl":
		return usageError("--output %q is unknown: table, json or jsonl", s.output)
	case watch && s.output == "json":
		return usageError("--watch writes a table, or with --output jsonl a line of JSON for each change")
	}
	signals, ignore := run.Signals()
	defer ignore()
	ctx, stop := run.UntilAsked(cmd.Context(), signals)
	defer stop()
	var err error
	if s.client, err = open(ctx, cmd); err != nil {
		return endCause(ctx, err)
	}
	if s.without != nil {
		defer s.closeUnserved(s.client)
	} else {
		defer s.closeClient(s.client)
	}
	err = f(ctx)
	if errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrNoAuth) {
		err = programExit{exitNo, err}
	}
	return endCause(ctx, err)
}

// readOnce calls f one time. Its result is not older than the call.
func (s *readCommand) readOnce(ctx context.Context, f func(ctx context.Context) error) error {
	if err := s.client.Sync().ForPath(ctx, "/"); err != nil {
		return err
	}
	if err := s.askServers(ctx); err != nil {
		return err
	}
	return f(ctx)
}

// askServers asks for the connections, and keeps the result for the output.
func (s *readCommand) askServers(ctx context.Context) (err error) {
	s.asked = time.Now()
	s.connected, err = inspect.Connections(ctx, s.client)
	return err
}

// askSessions asks the servers for connections if they may have a participant's address, but not at every change.
func (s *readCommand) askSessions(ctx context.Context, lines ...inspect.Line) {
	const pause = 5 * time.Second
	if since := time.Since(s.asked); !s.asked.IsZero() && (since < pause || len(s.connected.By) == 0) {
		return
	}
	for _, l := range lines {
		for _, all := range [][]inspect.Participant{l.Holders, l.Waiting} {
			for _, p := range all {
				if _, known := s.connected.By[p.Session]; !known && p.Session != 0 {
					_ = s.askServers(ctx) // it ends with ctx only, and then so does the iteration
					return
				}
			}
		}
	}
}

// followStates shows each state that is yielded, on a terminal in place of the last one. Ages advance every second without
// a request. seen is called for each state, before table, and prints it as JSON if that is asked for.
func followStates[T any](
	ctx context.Context, s *readCommand, states func(context.Context) iter.Seq2[T, error], seen func(T) error, table func(io.Writer, T),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type step struct {
		state T
		err   error
	}
	steps := make(chan step)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for state, err := range states(ctx) {
			select {
			case steps <- step{state, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-ended }()
	screen := terminalScreen(s.cmd.OutOrStdout())
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var last *T
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-steps:
			if now.err != nil {
				return now.err
			}
			last = &now.state
			if err := seen(now.state); err != nil {
				return err
			}
			if s.output == "jsonl" {
				continue
			}
		case <-second.C:
			if screen == nil || last == nil || s.output == "jsonl" {
				continue
			}
		}
		var b strings.Builder
		table(&b, *last)
		if screen != nil {
			if state := s.client.State().State; !state.IsConnected() {
				fmt.Fprintf(&b, "\nnot connected (%v): this is the last state before\n", state)
			}
		}
		if err := showOnScreen(s.cmd.OutOrStdout(), screen, b.String()); err != nil {
			return err
		}
	}
}

// terminalScreen is the terminal that is written to; nil if it is none, or can do nothing but print.
func terminalScreen(to io.Writer) *os.File {
	if file, ok := to.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		return file
	}
	return nil
}

// showOnScreen writes text in place of the screen's content, as much as there is room for. Without a screen it is appended to
// the earlier output.
func showOnScreen(to io.Writer, screen *os.File, text string) error {
	if screen == nil {
		_, err := io.WriteString(to, text+"\n")
		return err
	}
	width, height, err := term.GetSize(int(screen.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height-1 && height > 2 {
		more := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines", more))
	}
	var b strings.Builder
	b.WriteString("\x1b[H") // the upper left corner
	for _, line := range lines {
		if r := []rune(line); len(r) > width {
			line = string(r[:width-1]) + "…"
		}
		b.WriteString(line + "\x1b[K\r\n") // and removes the rest of a longer line
	}
	b.WriteString("\x1b[J")
	_, err = io.WriteString(to, b.String())
	return err
}

// writeTable writes what f writes.
func (s *readCommand) writeTable(f func(to io.Writer)) error {
	var b strings.Builder
	f(&b)
	_, err := io.WriteString(s.cmd.OutOrStdout(), b.String())
	return err
}

// writeColumns writes rows below each other. A cell must not have tabs or line breaks.
func writeColumns(to io.Writer, rows [][]string) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

// countText returns a number of things.
func countText(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}

// ageText returns the time since an event, which the servers' clock has timed: that may be ahead of this machine's.
func ageText(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	switch d := max(time.Since(since), 0); {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}
