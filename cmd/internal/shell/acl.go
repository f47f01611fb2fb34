package shell

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

func newACL(h commandHost) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acl",
		Short: "Print or replace the ACL of a node",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return usageError("a command is missing: acl get PATH, or acl set PATH ENTRY…")
		},
	}
	cmd.AddCommand(newACLGet(h), newACLSet(h))
	return cmd
}

// aclEntry is an entry of an ACL, in JSON.
type aclEntry struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"permissions"`
}

func newACLGet(h commandHost) *cobra.Command {
	var out outputForm
	cmd := &cobra.Command{
		Use:   "get PATH",
		Short: "Print the ACL of a node",
		Long: `Print the ACL of a node, one entry in a line: scheme:id:permissions. The permissions are
c (create children), d (delete children), r (read), w (write) and a (change the ACL).`,
		Args: argumentCount(1, 1),
	}
	out.formFlag(cmd.Flags())
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		acl, err := client.GetACL().ForPath(ctx, args[0])
		if err != nil {
			return err
		}
		var entries []aclEntry
		for _, a := range acl {
			entries = append(entries, aclEntry{a.Scheme, a.ID, permissionLetters(a.Perms)})
		}
		return printValues(&out, cmd, entries, func(w io.Writer) {
			for _, e := range entries {
				fmt.Fprintln(w, printableName(e.Scheme+":"+e.ID+":"+e.Perms))
			}
		})
	})
}

func newACLSet(h commandHost) *cobra.Command {
	var out outputForm
	version := int32(-1)
	cmd := &cobra.Command{
		Use:   "set PATH ENTRY…",
		Short: "Replace the ACL of a node",
		Long: `Replace all entries of a node's ACL by those given, each as scheme:id:permissions. Nodes below it keep
theirs. An entry with the scheme auth and no id ("auth::cdrwa") stands for the credentials that
--digest-file, --sasl-file or the client certificate prove. The permissions are c (create children), d
(delete children), r (read), w (write) and a (change the ACL).`,
		Example: `  curator acl set /config world:anyone:r auth::cdrwa
  curator acl set /config ip:10.0.0.0/8:cdrw sasl:alice:cdrwa --version 3`,
		Args: argumentCount(2, -1),
	}
	out.formFlag(cmd.Flags())
	cmd.Flags().Int32Var(&version, "version", version,
		"replace only this version of the ACL, \"ACL changed\" of stat (-1: any)")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		acl, err := parseACL(args[1:])
		if err != nil {
			return err
		}
		stat, err := client.SetACL().WithVersion(version).WithACL(acl...).ForPath(ctx, args[0])
		if err != nil {
			return err
		}
		return out.printValue(cmd, struct {
			Path string       `json:"path"`
			Stat statMetadata `json:"stat"`
		}{args[0], metadataOf(stat)}, func(w io.Writer) { fmt.Fprintln(w, "version", stat.Aversion) })
	})
}

// permissions are in the order of ZooKeeper's tools.
var permissions = []struct {
	letter byte
	perm   framework.Perm
}{
	{'c', framework.PermCreate}, {'d', framework.PermDelete}, {'r', framework.PermRead},
	{'w', framework.PermWrite}, {'a', framework.PermAdmin},
}

func permissionLetters(perms framework.Perm) string {
	var s strings.Builder
	for _, p := range permissions {
		if perms&p.perm != 0 {
			s.WriteByte(p.letter)
		}
	}
	return s.String()
}

// parseACL reads entries. The id may contain colons, as in the scheme digest.
func parseACL(entries []string) (acl []framework.ACL, err error) {
	for _, e := range entries {
		scheme, rest, ok := strings.Cut(e, ":")
		i := strings.LastIndex(rest, ":")
		if !ok || i < 0 || scheme == "" || i == len(rest)-1 {
			return nil, usageError("%q is no entry of an ACL: write scheme:id:permissions, as in world:anyone:r", e)
		}
		a := framework.ACL{Scheme: scheme, ID: rest[:i]}
	next:
		for _, letter := range []byte(rest[i+1:]) {
			for _, p := range permissions {
				if p.letter == letter {
					a.Perms |= p.perm
					continue next
				}
			}
			return nil, usageError("%q: %q is no permission: those are c, d, r, w and a", e, letter)
		}
		acl = append(acl, a)
	}
	return acl, nil
}
