package shell

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/framework"
)

// Connection connects a command to the servers, by the options of the program.
type Connection interface {
	// Flags adds the options to a command's.
	Flags(f *pflag.FlagSet)
	// Open returns a connected client, which the caller closes.
	Open(ctx context.Context, cmd *cobra.Command) (*framework.Client, error)
	// Begin returns a client that is not connected yet, which the caller closes. servers, if there are any, replace
	// the options' servers.
	Begin(cmd *cobra.Command, servers []string, opts ...framework.Option) (*framework.Client, error)
}

// More returns further commands for a prompt, which use its client. c is the connection that has made it.
type More func(c Connection, client *framework.Client) []*cobra.Command

// commandHost connects commands. A command that runs by itself opens its own connection; in the prompt it uses the prompt's.
type commandHost struct {
	connect func() Connection
	prompt  *runningPrompt // nil outside the prompt
}

// Commands returns the commands. connect makes the connection of each that is run by itself; more, which may
// be nil, are commands that the prompt has, too.
func Commands(group string, connect func() Connection, more More) []*cobra.Command {
	all := append(commandHost{connect: connect}.commands(), newShell(connect, more))
	for _, c := range all {
		c.GroupID = group
	}
	return all
}

func (h commandHost) commands() []*cobra.Command {
	return []*cobra.Command{
		newLs(h), newGet(h), newSet(h), newCreate(h), newRm(h), newTree(h), newStat(h), newWatch(h),
		newDump(h), newRestore(h), newACL(h), newSync(h), newConfig(h), newReconfig(h), newPing(h), newFourLetter(h),
	}
}

// setAction makes f the action of the command. ctx ends when a signal asks to end.
func (h commandHost) setAction(
	cmd *cobra.Command, f func(ctx context.Context, client *framework.Client, args []string) error,
) *cobra.Command {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = h.completePath
	}
	if h.prompt != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return userError(f(cmd.Context(), h.prompt.client, args))
		}
		return cmd
	}
	c := h.connect()
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return untilSignal(cmd.Context(), func(ctx context.Context) error {
			client, err := c.Open(ctx, cmd)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			return userError(f(ctx, client, args))
		})
	}
	return cmd
}

// untilSignal calls f with a context that ends when a signal asks to end, which then is the error. A second
// signal ends the program, if f is stuck.
func untilSignal(ctx context.Context, f func(ctx context.Context) error) error {
	signals, ignore := run.Signals()
	defer ignore()
	ctx, stop := run.UntilAsked(ctx, signals)
	defer stop()
	defer context.AfterFunc(ctx, ignore)()
	err := f(ctx)
	var asked run.Asked
	if err != nil && errors.As(context.Cause(ctx), &asked) {
		return asked
	}
	return err
}

// argumentCount checks the number of a command's arguments. most < 0 means any number.
func argumentCount(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError("an argument is missing: %s %s", cmd.CommandPath(), usageForm(cmd))
		case most >= 0 && len(args) > most:
			return usageError("%q is one argument too many: %s %s", args[most], cmd.CommandPath(), usageForm(cmd))
		}
		return nil
	}
}
