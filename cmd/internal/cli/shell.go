package cli

import (
	"context"
	"crypto/tls"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
)

// nodeCommands are the commands for nodes and servers, and the prompt.
func nodeCommands() []*cobra.Command {
	return shell.Commands("nodes", func() shell.Connection { return new(shellConnection) })
}

// shellConnection is the connection of such a command.
type shellConnection struct{ connection }

func (c *shellConnection) Flags(f *pflag.FlagSet) { c.flags(f) }

func (c *shellConnection) Open(ctx context.Context, cmd *cobra.Command) (*framework.Client, error) {
	return c.open(ctx, cmd)
}

func (c *shellConnection) Servers(cmd *cobra.Command) ([]string, *tls.Config, error) {
	if err := c.fromEnvironment(cmd.Flags()); err != nil {
		return nil, nil, err
	}
	config, err := c.tlsConfig()
	if err != nil || c.servers == "" {
		return nil, config, err
	}
	client, err := framework.New(c.servers) // which knows how to read the list; it needs no connection
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = client.Close() }()
	return client.Servers(), config, nil
}
