package shell

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

// createOptions has the options for the kind of node.
type createOptions struct {
	ephemeral, sequential, container, parents, hold bool

	ttl  time.Duration
	acls []string
}

// createMode is the kind of node in ZooKeeper's terms.
func (m createOptions) createMode(inPrompt bool) (framework.CreateMode, error) {
	kinds := 0
	for _, is := range []bool{m.ephemeral, m.container, m.ttl != 0} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return 0, usageError("--ephemeral, --container and --ttl exclude one another")
	case m.ttl < 0 || m.ttl%time.Millisecond != 0:
		return 0, usageError("--ttl %v: give whole milliseconds, more than none", m.ttl)
	case m.container && m.sequential:
		return 0, usageError("a container cannot be --sequential")
	case m.hold && inPrompt:
		return 0, usageError("--hold is not for the prompt, where ephemeral nodes live until it ends")
	case m.hold && !m.ephemeral:
		return 0, usageError("--hold is for --ephemeral nodes: others stay without it")
	case m.ephemeral && !m.hold && !inPrompt:
		return 0, usageError("an ephemeral node lives only as long as the session that has made it, and this session " +
			"would end immediately: add --hold, which keeps it until it is interrupted, or use \"curator shell\"")
	case m.ttl > 0 && m.sequential:
		return framework.PersistentSequentialTTL, nil
	case m.ttl > 0:
		return framework.PersistentTTL, nil
	case m.container:
		return framework.Container, nil
	case m.ephemeral && m.sequential:
		return framework.EphemeralSequential, nil
	case m.ephemeral:
		return framework.Ephemeral, nil
	case m.sequential:
		return framework.PersistentSequential, nil
	}
	return framework.Persistent, nil
}

func newCreate(h commandHost) *cobra.Command {
	var out outputForm
	var from dataSource
	var making createOptions
	cmd := &cobra.Command{
		Use:   "create PATH [DATA]",
		Short: "Create a node",
		Long: `Create a node, and print its path. An ephemeral node lives as long as the session that has created it: in
the prompt ("curator shell") as long as the prompt, elsewhere --hold keeps it until curator is
interrupted, and ends with status 122 when the node or the session is lost.`,
		Example: `  curator create /config/app '{"level":3}' --parents
  curator create /jobs/job- --sequential --file job.json
  curator create /services/a/host1 host1:8080 --ephemeral --hold`,
		Args: argumentCount(1, 2),
	}
	f := cmd.Flags()
	out.formFlag(f)
	from.dataFlag(f)
	f.BoolVarP(&making.ephemeral, "ephemeral", "e", false,
		"delete it when the session ends: only with --hold, or in the prompt")
	f.BoolVarP(&making.sequential, "sequential", "s", false, "append a number that grows with each child")
	f.BoolVar(&making.container, "container", false, "let the servers delete it after its last child is deleted")
	f.DurationVar(&making.ttl, "ttl", 0, "let the servers delete it when it has not changed for that long, and "+
		"has no children (zookeeper.extendedTypesEnabled)")
	f.BoolVarP(&making.parents, "parents", "p", false, "create missing parents")
	f.BoolVar(&making.hold, "hold", false, "keep an ephemeral node until curator is interrupted")
	f.StringArrayVar(&making.acls, "acl", nil, "`scheme:id:permissions`, as for \"acl set\"; may be repeated "+
		"(default: all clients have all permissions)")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
		mode, err := making.createMode(h.prompt != nil)
		if err != nil {
			return err
		}
		data, err := from.readData(ctx, h, cmd, args[1:])
		if err != nil {
			return err
		}
		acl, err := parseACL(making.acls)
		if err != nil {
			return err
		}
		session, err := client.Session(ctx)
		if err != nil {
			return err
		}
		if making.hold {
			client = session.Client()
		}
		b := client.Create().WithMode(mode)
		if making.ttl > 0 {
			b = b.WithTTL(making.ttl)
		}
		if len(acl) > 0 {
			b = b.WithACL(acl...)
		}
		if making.parents {
			b = b.CreatingParentsIfNeeded()
		}
		var stat framework.Stat
		path, err := b.StoringStatIn(&stat).ForPath(ctx, args[0], data)
		if err != nil {
			return withAdvice(err, making.createHints()...)
		}
		err = out.printValue(cmd, struct {
			Path string       `json:"path"`
			Stat statMetadata `json:"stat"`
		}{path, metadataOf(stat)}, func(w io.Writer) { fmt.Fprintln(w, printableName(path)) })
		if err == nil && making.hold {
			err = holdNode(ctx, session, path)
		}
		return err
	})
}

func (m createOptions) createHints() []errorHint {
	hints := []errorHint{
		{framework.ErrNodeExists, `"set PATH DATA" replaces its data`},
		{framework.ErrNoNode, "--parents creates missing parents; a chroot has to be created without it"},
	}
	if m.ttl > 0 {
		hints = append(hints, errorHint{framework.ErrUnimplemented,
			"for --ttl the servers have to run with zookeeper.extendedTypesEnabled=true"})
	}
	return hints
}

// holdNode waits until ctx ends, or the node is lost.
func holdNode(ctx context.Context, session *framework.Session, path string) error {
	for {
		stat, watch, err := session.Client().CheckExists().WithWatch().ForPath(ctx, path)
		switch {
		case session.Context().Err() != nil:
			return namedError{ErrLost, fmt.Errorf("%s is lost: %w", printableName(path), context.Cause(session.Context()))}
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			select { // no connection; the session may still live
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		case stat == nil:
			watch.Stop()
			return namedError{ErrLost, fmt.Errorf("%s is lost: another client has deleted it", printableName(path))}
		}
		select {
		case <-watch.C:
		case <-ctx.Done():
		}
		watch.Stop()
	}
}
