package shell

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/admin"
)

// ensembleMember is a member of the ensemble, in JSON.
type ensembleMember struct {
	ID            int64  `json:"id"`
	Role          string `json:"role"`
	ClientAddress string `json:"clientAddress,omitempty"`
	Spec          string `json:"spec"`
}

func newConfig(h commandHost) *cobra.Command {
	var out outputForm
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the members of the ensemble",
		Long: `Print the members of the ensemble as the connected server has them, and the version of that list. A
standalone server has no members.`,
		Args:              argumentCount(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out.formFlag(cmd.Flags())
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, _ []string) error {
		config, err := client.GetConfig(ctx)
		if err != nil {
			return err
		}
		return printConfig(cmd, &out, config)
	})
}

func newReconfig(h commandHost) *cobra.Command {
	var out outputForm
	var joining, leaving, members []string
	from := int64(-1)
	cmd := &cobra.Command{
		Use:   "reconfig",
		Short: "Change the members of the ensemble",
		Long: `Change the members of the ensemble: add (--add) or remove (--remove) some, or name all (--member).
Print the new list. The servers have to run with reconfigEnabled=true, and the client needs permission to
write /zookeeper/config, which by default only the super user has (--digest-file).`,
		Example: `  curator reconfig --add 'server.4=zk4:2888:3888:participant;2181'
  curator reconfig --remove 4 --from-version 100000003`,
		Args:              argumentCount(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	out.formFlag(f)
	f.StringArrayVar(&joining, "add", nil, "`server.ID=host:port:port:role;clientPort`: a member to add or to change")
	f.StringArrayVar(&leaving, "remove", nil, "`ID` of a member to remove")
	f.StringArrayVar(&members, "member", nil, "a member of the complete new list, as for --add")
	f.Int64Var(&from, "from-version", from, "change only this version of the list, which \"config\" prints (-1: any)")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, _ []string) error {
		config, err := admin.Reconfig(client).Joining(joining...).Leaving(leaving...).WithNewMembers(members...).
			FromConfig(from).ForEnsemble(ctx)
		if err != nil {
			return withAdvice(err,
				errorHint{framework.ErrReconfigDisabled, "set reconfigEnabled=true in the configuration of every server"},
				errorHint{framework.ErrUnimplemented, "a standalone server has no members to change"},
				errorHint{framework.ErrNoAuth, "only the super user may, unless /zookeeper/config has another ACL: give " +
					"--digest-file"},
				errorHint{framework.ErrBadVersion, "\"config\" prints the version now"},
				errorHint{framework.ErrBadArguments, "--add and --member take server.ID=…, --remove an ID; --member " +
					"excludes both"},
				errorHint{framework.ErrNewConfigNoQuorum, "start the new servers first, and let them catch up"},
				errorHint{framework.ErrOutcomeUnknown, "\"config\" shows the outcome"})
		}
		return printConfig(cmd, &out, config)
	})
}

func printConfig(cmd *cobra.Command, out *outputForm, config framework.EnsembleConfig) error {
	members := []ensembleMember{}
	for _, m := range config.Members {
		role := "participant"
		if m.Observer {
			role = "observer"
		}
		members = append(members, ensembleMember{m.ID, role, m.ClientAddress, m.Spec})
	}
	return out.printValue(cmd, struct {
		Version int64            `json:"version"`
		Members []ensembleMember `json:"members"`
	}{config.Version, members}, func(w io.Writer) {
		if len(members) == 0 {
			fmt.Fprintln(w, "no members: a standalone server")
			return
		}
		fmt.Fprintf(w, "version\t%d\n", config.Version)
		for _, m := range members {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", m.ID, m.Role, printableName(m.ClientAddress), printableName(m.Spec))
		}
	})
}
