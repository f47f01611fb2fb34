package cli

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the man pages into a directory",
		Long: `Write the man pages into a directory, which is created if it does not exist: one for each command. Read one with
"man -l DIRECTORY/curator-lock.1", or give /usr/local/share/man/man1 and read it with "man curator-lock".`,
		Example: "  curator man /usr/local/share/man/man1",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("one directory is needed: write %s DIRECTORY", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return usageError("%w", err)
			}
			version := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			header := &doc.GenManHeader{Title: "CURATOR", Section: "1", Source: "Curator for Go " + version}
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}
