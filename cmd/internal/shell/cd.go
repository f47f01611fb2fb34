package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newCd(p *runningPrompt) *cobra.Command {
	return &cobra.Command{
		Use:   "cd [PATH]",
		Short: "Set the node at which relative paths begin",
		Long: `Set the node at which relative paths begin (default /), in all commands of the prompt. ".." is the parent of a
node, as in "cd ..", "ls ../orders".`,
		Example: "  cd /locks/orders\n  ls\n  cd ..",
		Args:    argumentCount(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				p.at = "/"
				return nil
			}
			to := args[0]
			if to != "/" {
				to = strings.TrimSuffix(to, "/") // as Tab leaves it
			}
			switch stat, err := p.client.CheckExists().ForPath(cmd.Context(), to); {
			case err != nil:
				return userError(err)
			case stat == nil:
				return userError(fmt.Errorf("%s: %w", printableName(to), framework.ErrNoNode))
			}
			p.at = to
			return nil
		},
	}
}

func newPwd(p *runningPrompt) *cobra.Command {
	return &cobra.Command{
		Use:   "pwd",
		Short: "Print the node at which relative paths begin",
		Args:  argumentCount(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(stdout(cmd), printableName(p.at))
			return err
		},
	}
}

// absolutePath returns a path from the root. Text that is not a path at all stays unchanged: the command reports the
// error.
func (p *runningPrompt) absolutePath(to string) string {
	if to == "" || strings.HasPrefix(to, "/") {
		if slices.Contains(strings.Split(to, "/"), "..") {
			return path.Clean(to)
		}
		return to
	}
	from := path.Join(p.at, to)
	if strings.HasSuffix(to, "/") && from != "/" {
		from += "/" // the name follows: from the server with create --sequential, or by completion
	}
	return from
}

// resolveRelative makes the commands below one take relative paths as their first argument, if that is a path by how
// they are written. If it is left out, it is the node that the prompt is at.
func (p *runningPrompt) resolveRelative(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		p.resolveRelative(c)
	}
	form := strings.Fields(usageForm(cmd))
	if len(form) == 0 {
		return
	}
	optional := form[0] == "[PATH]"
	if !optional && form[0] != "PATH" && form[0] != "ROOT" {
		return
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = commandHost{prompt: p}.completePath
	}
	from := func(args []string) []string {
		if len(args) == 0 {
			if optional && cmd.Name() != "cd" {
				return []string{p.at}
			}
			return args
		}
		return append([]string{p.absolutePath(args[0])}, args[1:]...)
	}
	if valid := cmd.Args; valid != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return valid(cmd, from(args)) }
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, from(args)) }
	}
}

// pathEnding is the end of a path, in one line.
func pathEnding(path string, most int) string {
	if r := []rune(path); len(r) > most {
		return "…" + printableName(string(r[len(r)-most:]))
	}
	return printableName(path)
}
