package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the program's version, and what it was built from",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			fmt.Fprintf(cmd.OutOrStdout(), "curator %s\n", versionOf(info))
			return nil
		},
	}
}

// versionOf is the module's version, the commit if the program was built from a clone, and the system.
func versionOf(info *debug.BuildInfo) string {
	words := []string{"(devel)"}
	if info != nil {
		if info.Main.Version != "" {
			words[0] = info.Main.Version
		}
		of := map[string]string{}
		for _, s := range info.Settings {
			of[s.Key] = s.Value
		}
		if commit := of["vcs.revision"]; commit != "" {
			if of["vcs.modified"] == "true" {
				commit += " with changes"
			}
			words = append(words, "commit "+commit)
		}
		if at := of["vcs.time"]; at != "" {
			words = append(words, at)
		}
	}
	return strings.Join(append(words, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH), ", ")
}
