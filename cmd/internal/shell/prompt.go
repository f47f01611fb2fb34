package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/framework"
)

func newShell(connect func() Connection, more More) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shell",
		Short: "A prompt in which these commands share one session",
		Long: `A prompt in which the commands for nodes and servers share one session: ephemeral nodes that are created
there live until it ends. So do who, locks, why and doctor, and lock, lead, permit and once, which run
commands of this machine. "cd PATH" makes PATH the node at which relative paths begin, as in "ls orders"
and "cd ..".

Tab completes commands, flags and paths; the arrows and Ctrl-R find earlier lines, which are kept in
CURATOR_HISTORY (~/.local/state/curator/history; empty for not at all), except those that begin with a
blank. Ctrl-C ends a command, or drops the line; Ctrl-D, exit or quit end the prompt.

Words are separated by blanks. 'text' is taken as it is, "text" as in Go's strings ("\n", "\u202e",
"\xff"), and a backslash takes the next character as it is.

If standard input is not a terminal, its lines are executed one after the other, up to the first that
fails, whose status is that of the shell. A line that begins with # is a comment.`,
		Example: `  curator shell
  curator shell < commands.txt`,
		Args:              argumentCount(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c := connect()
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p := &runningPrompt{cmd: cmd, at: "/"}
		if more != nil {
			p.more = func() []*cobra.Command { return more(c, p.client) }
		}
		return p.runPrompt(cmd.Context(), c)
	}
	return cmd
}

// runningPrompt is a running prompt.
type runningPrompt struct {
	cmd    *cobra.Command
	client *framework.Client
	more   func() []*cobra.Command // nil for none
	at     string                  // the node that relative paths begin at
	ctx    context.Context         // ends when the prompt is to end
	editor *lineEditor             // nil without a terminal

	terminal bool // standard input is one

	mu        sync.Mutex
	interrupt context.CancelFunc // of the running command, or nil; guarded by mu
}

// runPrompt connects, and executes lines until they end. Its signals are its own: an interrupt ends the running
// command only.
func (p *runningPrompt) runPrompt(ctx context.Context, c Connection) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.ctx, p.terminal = ctx, isTerminal(p.cmd.InOrStdin())
	connecting, stop := context.WithCancel(ctx)
	defer stop()
	p.runningCommand(stop)
	done := p.obeySignals(cancel)
	defer done()
	if p.client, err = c.Open(connecting, p.cmd); err != nil {
		return p.endCause(connecting, err)
	}
	p.runningCommand(nil)
	defer func() { _ = p.client.Close() }()
	lines, end := p.executeScanned, func() {}
	if p.terminal {
		in := p.cmd.InOrStdin().(*os.File)
		p.editor = newEditor(in, shownOn(p.cmd.OutOrStdout(), in), newHistory(historyFile()), p.completeLine)
		end = p.reportStates()
		lines = p.executeEdited
	}
	defer end()
	return lines()
}

// endCause is the signal that has ended ctx, or else err.
func (p *runningPrompt) endCause(ctx context.Context, err error) error {
	var asked run.Asked
	switch {
	case errors.As(context.Cause(p.ctx), &asked):
		return asked
	case errors.Is(ctx.Err(), context.Canceled):
		return run.Asked{Signal: os.Interrupt}
	}
	return err
}

// obeySignals obeys signals until done is called: an interrupt from the terminal ends the running command, all
// others the prompt.
func (p *runningPrompt) obeySignals(cancel context.CancelCauseFunc) (done func()) {
	signals, ignore := run.Signals()
	asked, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case s := <-signals:
				switch {
				case s == os.Interrupt && p.terminal:
					p.mu.Lock()
					if p.interrupt != nil {
						p.interrupt()
					}
					p.mu.Unlock()
				case run.Asks(s):
					cancel(run.Asked{Signal: s})
				}
			case <-asked.Done():
				return
			}
		}
	})
	return func() {
		stop()
		wg.Wait()
		ignore()
	}
}

func (p *runningPrompt) runningCommand(interrupt context.CancelFunc) {
	p.mu.Lock()
	p.interrupt = interrupt
	p.mu.Unlock()
}

// reportStates prints the changes of the connection, until done is called.
func (p *runningPrompt) reportStates() (done func()) {
	ctx, stop := context.WithCancel(p.ctx)
	var wg sync.WaitGroup
	changes := p.client.StateChanges(ctx)
	epoch := p.client.State().Epoch
	wg.Go(func() {
		for change := range changes {
			switch {
			case change.State == framework.Suspended:
				p.editor.printAbove("-- connection lost, session suspended; reconnecting")
			case change.State == framework.Lost:
				p.editor.printAbove("-- session lost, with its ephemeral nodes")
			case change.State == framework.Reconnected && change.Epoch == epoch:
				p.editor.printAbove("-- reconnected; the session and its ephemeral nodes still exist")
			case change.State == framework.Reconnected:
				p.editor.printAbove("-- reconnected, in a new session")
			case change.State == framework.ReadOnly:
				p.editor.printAbove("-- connected to a server without a quorum: nothing can be written")
			}
			epoch = change.Epoch
		}
	})
	return func() {
		stop()
		wg.Wait()
	}
}

var errExit = errors.New("exit")

// executeEdited executes lines from the terminal.
func (p *runningPrompt) executeEdited() error {
	p.editor.printAbove(fmt.Sprintf("connected to %s; help lists the commands, Ctrl-D ends", printableName(p.client.Health().Server)))
	for {
		line, err := p.editor.readLine(p.ctx, p.promptText())
		switch {
		case errors.Is(err, errInterrupted):
			continue
		case errors.Is(err, errEnd):
			return nil
		case err != nil:
			return err
		}
		err = p.executeLine(line)
		var asked run.Asked
		switch {
		case errors.Is(err, errExit):
			return nil
		case errors.As(context.Cause(p.ctx), &asked):
			return asked
		case errors.Is(err, context.Canceled), errors.Is(err, ErrFound):
		case errors.As(err, &asked) && asked.Signal == os.Interrupt:
		case err != nil:
			p.editor.printAbove("curator: " + printableText(err.Error()))
		}
	}
}

// promptText returns the prompt's text.
func (p *runningPrompt) promptText() string {
	text := "curator"
	if p.at != "/" {
		text += " " + pathEnding(p.at, 40)
	}
	if state := p.client.State().State; !state.IsConnected() {
		text += " (" + strings.ToLower(state.String()) + ")"
	}
	return text + "> "
}

// executeScanned executes lines from standard input up to the first that fails.
func (p *runningPrompt) executeScanned() error {
	in, err := openSource(p.ctx, commandHost{}, p.cmd, "-")
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, most)
	for n := 1; lines.Scan(); n++ {
		switch err := p.executeLine(lines.Text()); {
		case errors.Is(err, errExit):
			return nil
		case p.ctx.Err() != nil:
			return context.Cause(p.ctx)
		case err != nil:
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return lines.Err()
}

// executeLine executes a line.
func (p *runningPrompt) executeLine(line string) error {
	found, _, err := splitWords(line)
	switch {
	case err != nil:
		return usageError("%w", err)
	case len(found) == 0 || strings.HasPrefix(strings.TrimSpace(line), "#"):
		return nil
	case len(found) == 1 && (found[0].value == "exit" || found[0].value == "quit"):
		return errExit
	}
	var args []string
	for _, w := range found {
		args = append(args, w.value)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	p.runningCommand(cancel)
	defer p.runningCommand(nil)
	root := p.promptCommands(p.cmd.OutOrStdout(), p.cmd.ErrOrStderr())
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// promptCommands returns the commands of the prompt, new for each line, since flags keep their values.
func (p *runningPrompt) promptCommands(out, failed io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "curator",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("unknown command %q: help lists them", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return FlagError(err, "help "+cmd.Name())
	})
	root.SetIn(p.cmd.InOrStdin())
	root.SetOut(out)
	root.SetErr(failed)
	root.AddCommand(commandHost{prompt: p}.commands()...)
	root.AddCommand(newCd(p), newPwd(p))
	if p.more != nil {
		root.AddCommand(p.more()...)
	}
	p.resolveRelative(root)
	for _, word := range []string{"exit", "quit"} {
		root.AddCommand(&cobra.Command{Use: word, Short: "End the prompt", Args: argumentCount(0, 0),
			RunE: func(*cobra.Command, []string) error { return errExit }})
	}
	return root
}
