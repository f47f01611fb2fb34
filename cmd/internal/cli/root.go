// Package cli is the command line of curator: one file for each command; the shared parts are in connect.go (options
// for the servers), under.go (running under a hold) and exit.go (exit codes).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/go-curator/curator/cmd/internal/keeper"
	"github.com/go-curator/curator/cmd/internal/shell"
)

// Main runs the program and returns its exit code.
func Main(args []string) int {
	if len(args) > 0 && args[0] == keeper.Word {
		return keeper.Main(args)
	}
	root := newRoot()
	root.SetArgs(args)
	end := programExitOf(root.ExecuteContext(context.Background()))
	if end.err != nil {
		printLine(root.ErrOrStderr(), "%v", end.err)
	}
	return end.code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "curator",
		Short: "Run commands under locks, leadership and permits of a ZooKeeper ensemble, and show holders and waiters",
		Long: `Run commands under locks, leadership and permits of a ZooKeeper ensemble, and show holders,
waiters, and why a line does not move.

A command has ended before another process can acquire its hold: it is asked to end (TERM) while the
hold is still certain, and killed (KILL) in time, also when the servers, the network or curator itself
fail or hang. Java Curator waits in the same lines, on the same paths.

Servers are given by --servers or CURATOR_SERVERS. To try it out without any:

  curator serve
  CURATOR_SERVERS=127.0.0.1:2181 curator lock /locks/demo -- sh -c 'echo mine; sleep 10'

Exit codes:` + exitCodesHelp(),
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
					return usageError("unknown command %q: do you mean %s? See curator --help", args[0], strings.Join(near, " or "))
				}
				return usageError("unknown command %q: see curator --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddGroup(
		&cobra.Group{ID: "holds", Title: "Commands that run a command under a hold:"},
		&cobra.Group{ID: "sees", Title: "Commands that show holders and waiters:"},
		&cobra.Group{ID: "nodes", Title: "Commands for nodes and servers:"},
	)
	inGroup := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
		}
		root.AddCommand(commands...)
	}
	inGroup("holds", newLock(clientConnection{}), newLead(clientConnection{}), newPermit(clientConnection{}), newOnce(clientConnection{}))
	inGroup("sees", newWho(clientConnection{}), newLocks(clientConnection{}), newWhy(clientConnection{}), newDoctor(clientConnection{}), newWeb())
	root.AddCommand(nodeCommands()...)
	root.AddCommand(newServe(), newMan(), newVersion())
	info, _ := debug.ReadBuildInfo()
	root.Version = versionOf(info)
	root.Flags().Bool("version", false, "print the program's version") // cobra's own would have -v, too
	root.SetVersionTemplate("curator {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return shell.FlagError(err, cmd.CommandPath()+" --help")
	})
	return root
}

// noArguments refuses arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// printLine prints a line for people, with colours on a terminal only.
func printLine(to io.Writer, format string, args ...any) {
	name := "curator:"
	if file, ok := to.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" &&
		os.Getenv("TERM") != "dumb" {
		name = "\x1b[1m" + name + "\x1b[0m"
	}
	fmt.Fprintln(to, name, fmt.Sprintf(format, args...))
}

var errNoServers = errors.New(`no servers: give --servers host:port,host:port/chroot or set CURATOR_SERVERS.
To try it out, run "curator serve" in another terminal, and set CURATOR_SERVERS=127.0.0.1:2181`)
