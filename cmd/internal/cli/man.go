package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the man pages into a directory",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("give one directory")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			header := &doc.GenManHeader{Title: "CURATOR", Section: "1", Source: "Curator for Go"}
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}
