package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
)

// nodeCommands are the commands for nodes and servers, and the prompt.
func nodeCommands() []*cobra.Command {
	return shell.Commands("nodes", func() shell.Connection { return new(shellConnection) }, promptCommands)
}

// shellConnection is the connection of such a command.
type shellConnection struct{ clientConnection }

func (c *shellConnection) Flags(f *pflag.FlagSet) { c.flags(f) }

func (c *shellConnection) Open(ctx context.Context, cmd *cobra.Command) (*framework.Client, error) {
	return c.openClient(ctx, cmd)
}

func (c *shellConnection) Begin(
	cmd *cobra.Command, servers []string, opts ...framework.Option,
) (*framework.Client, error) {
	if len(servers) > 0 { // as if --servers were given: the variable does not replace it
		if err := cmd.Flags().Set("servers", strings.Join(servers, ",")); err != nil {
			return nil, err
		}
	}
	return c.newClient(cmd, opts...)
}

// promptCommands are the prompt's additional commands. They use its client.
func promptCommands(c shell.Connection, client *framework.Client) []*cobra.Command {
	own := clientConnection{shared: client}
	if c, ok := c.(*shellConnection); ok {
		own.sessionTimeout, own.verbose = c.sessionTimeout, c.verbose
	}
	all := []*cobra.Command{
		newWho(own), newLocks(own), newWhy(own), newDoctor(own), newLock(own), newLead(own), newPermit(own), newOnce(own),
	}
	for _, c := range all {
		if name := c.Name(); name == "who" || name == "why" || name == "locks" {
			c.Use = name + " [PATH]" // or where the prompt is
		}
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if end, ok := err.(programExit); ok && end.code == 0 {
				return nil // a normal end: the prompt continues
			}
			return err
		}
	}
	return all
}
