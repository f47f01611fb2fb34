package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// ErrInvalidDump means that a stream is not a dump, or is not complete. The message has the number of the line.
var ErrInvalidDump = errors.New("invalid dump")

// ErrSystemPath means that a restore would write to /zookeeper or below, where the servers keep their configuration and
// the quotas. Nothing was written there. If only a node of the dump, and not the path of the restore, is in /zookeeper,
// the error matches [ErrInvalidDump], too.
var ErrSystemPath = errors.New("/zookeeper belongs to the servers: nothing is restored there")

// RestoreBuilder creates the nodes of a dump. It is a value: each method returns a changed copy.
type RestoreBuilder struct {
	c         *framework.Client
	overwrite bool
	progress  func(Progress)
	plan      func(path string, step RestoreStep)
}

// RestoreStep is the action of a restore on a node, see [RestoreBuilder.DryRun].
type RestoreStep int8

const (
	// RestoreCreate means that the node does not exist and would be created.
	RestoreCreate RestoreStep = iota + 1
	// RestoreSame means that the node exists with the data of the dump and would not be changed.
	RestoreSame
	// RestoreOverwrite means that the node exists and would get the data and the ACL of the dump.
	RestoreOverwrite
	// RestoreConflict means that the node exists with other data, and the restore would end there.
	RestoreConflict
)

func (s RestoreStep) String() string {
	if s < RestoreCreate || s > RestoreConflict {
		return fmt.Sprintf("RestoreStep(%d)", int8(s))
	}
	return [...]string{"create", "same", "overwrite", "conflict"}[s-RestoreCreate]
}

// Restore begins to create the nodes of a dump, see [Dump]. Curator has no such operation.
func Restore(c *framework.Client) RestoreBuilder { return RestoreBuilder{c: c} }

// Overwriting sets the data and, if the dump has them, the ACLs of nodes that exist already. Nodes that are
// not in the dump stay in any case.
func (b RestoreBuilder) Overwriting() RestoreBuilder { b.overwrite = true; return b }

// DryRun makes ForPath change nothing. ForPath then reads the whole dump, and calls f for each node of it, in order and
// on its caller's goroutine, with the step that the restore would take at path if no other client changed anything. It
// needs permission to read the nodes that exist. A conflict does not end it. It does not find out whether the servers
// would refuse a step, such as a create without permission. [Progress] then counts the nodes that would be restored.
func (b RestoreBuilder) DryRun(f func(path string, step RestoreStep)) RestoreBuilder {
	if f == nil {
		f = func(string, RestoreStep) {} // a nil plan would mean that nodes are created
	}
	b.plan = f
	return b
}

// WithProgress makes ForPath call f after each transaction, on the goroutine that called ForPath. The restore continues
// when f returns. Default: no function.
func (b RestoreBuilder) WithProgress(f func(Progress)) RestoreBuilder { b.progress = f; return b }

// The limits of one transaction.
const (
	transactionNodes = 500
	transactionBytes = 256 << 10
)

// ForPath creates the dump's root at path, which may differ from the path of the dump, and everything below it. Missing
// parents of path are created as with [framework.Client.Ensure]. ForPath returns the progress that it has made, also
// with an error. It blocks until the restore is complete, ctx ends or there is an error; ctx cannot interrupt a Read of
// r.
//
// A node that exists already with the data of the dump counts as restored; its ACL is not compared. If it has other
// data, and the restore is not Overwriting, the error matches framework.ErrNodeExists. So a restore that has ended
// early can be run again.
//
// Nodes are created hundreds at a time, in transactions, as long as none of them exists. After a lost connection they
// are created one by one, if the retry policy allows another try. The restore is not atomic: when it ends with an
// error, part of the nodes exist. The stream is read as the restore continues, so damage (ErrInvalidDump) may be found
// late.
//
// A dump is not trusted. It can create nodes below path, with any data and ACLs, and nothing else. These are
// ErrInvalidDump, too:
//
//   - A node without an ACL although by the header the nodes have ACLs: every client could change it.
//   - A line longer than two frames (see [framework.WithMaxFrame]) and a mebibyte.
//   - A node that would lie in /zookeeper, which is [ErrSystemPath], too.
//
// The restore keeps one line and a transaction of at most 500 nodes and 256 KiB in memory.
func (b RestoreBuilder) ForPath(ctx context.Context, path string, r io.Reader) (Progress, error) {
	var p Progress
	v, at, err := resolveView(b.c, path)
	if err == nil && r == nil {
		err = badArguments("Restore needs a reader")
	}
	if err == nil && v.isSystemPath(at) {
		err = ErrSystemPath
	}
	switch {
	case err != nil:
	case ctx == nil:
		err = framework.ErrNilContext
	case ctx.Err() != nil:
		err = v.WaitError(ctx, nil)
	}
	if err == nil {
		restoring := restoreRun{b, v, at, newDumpLineReader(r, v.MaxFrame())}
		err = restoring.run(ctx, path, &p)
	}
	return p, wrapOpError("restore", path, err)
}

// restoreRun is a call of [RestoreBuilder.ForPath].
type restoreRun struct {
	RestoreBuilder
	v    unscopedClient
	root string
	in   *dumpLineReader
}

type plannedCreate struct {
	at   string
	data []byte
	acl  []framework.ACL // nil: the client's ACL provider returns it
}

func (r restoreRun) run(ctx context.Context, path string, p *Progress) error {
	if err := r.in.readHeader(); err != nil {
		return err
	}
	if r.plan == nil {
		if err := r.createParents(ctx, path); err != nil {
			return unwrapOpError(err)
		}
	}
	limit := min(transactionBytes, r.v.MaxFrame()/2)
	var batch []plannedCreate
	size := 0
	flush := func() error {
		restore := r.createNodes
		if r.plan != nil {
			restore = r.reportPlan
		}
		existing, err := restore(ctx, batch)
		if err != nil {
			return err
		}
		for _, n := range batch {
			p.Bytes += int64(len(n.data))
		}
		p.Nodes += int64(len(batch))
		p.Existing += int64(existing)
		p.Ephemerals = r.in.skipped
		batch, size = nil, 0
		if r.progress != nil {
			r.progress(*p)
		}
		return nil
	}
	for {
		node, err := r.in.next()
		if err != nil {
			return err
		}
		if node == nil {
			break
		}
		n, err := r.nodeToCreate(node)
		if err != nil {
			return err
		}
		more := n.sizeBound()
		if len(batch) > 0 && (len(batch) == transactionNodes || size+more > limit) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, n), size+more
	}
	if len(batch) > 0 {
		return flush()
	}
	p.Ephemerals = r.in.skipped
	return nil
}

// nodeToCreate returns the node to create for a node of the dump.
func (r restoreRun) nodeToCreate(node *dumpNode) (plannedCreate, error) {
	n := plannedCreate{at: relocatePath(r.root, node.Path), data: node.Data}
	if r.v.isSystemPath(n.at) {
		return n, r.in.invalidDump("%s: %w", relocatePath(r.v.chroot, n.at), ErrSystemPath)
	}
	if r.in.withACLs && len(node.ACL) == 0 {
		return n, r.in.invalidDump("%s has no ACL, though the header says that the dump contains ACLs", node.Path)
	}
	if r.in.withACLs {
		for _, a := range node.ACL {
			n.acl = append(n.acl, framework.ACL{Perms: framework.Perm(a.Perms), Scheme: a.Scheme, ID: a.ID})
		}
	}
	if n.data == nil {
		n.data = []byte{} // with nil the node would get the client's default data
	}
	return n, nil
}

// sizeBound returns an upper bound for the length of the create in a transaction. It does not include an ACL of the
// client's provider.
func (n plannedCreate) sizeBound() int {
	const fixed, fixedACL = 32, 12
	size := fixed + len(n.at) + len(n.data)
	for _, a := range n.acl {
		size += fixedACL + len(a.Scheme) + len(a.ID)
	}
	return size
}

// createParents creates the missing parents of the restore's root. It does not create the client's chroot, but checks
// that it exists.
func (r restoreRun) createParents(ctx context.Context, path string) error {
	parent := zkpath.Parent(r.root)
	switch {
	case r.v.chroot == "/" && parent == "/": // also if the root is "/" itself
		return nil
	case path != "/":
		return r.c.EnsureParents(ctx, path) // in the namespace, whose root has its own ACL
	}
	return r.v.EnsureParents(ctx, r.root)
}

// createNodes creates nodes, parents first, together or else one by one. It returns how many existed already.
func (r restoreRun) createNodes(ctx context.Context, nodes []plannedCreate) (existing int, err error) {
	singly := len(nodes) == 1 || nodes[0].at == "/" // "/" exists already
	err = r.v.sendFlight(ctx, func(ctx context.Context) (err error) {
		if !singly {
			if singly, err = r.createAtOnce(ctx, nodes); err != nil || !singly {
				return err
			}
		}
		existing, err = r.createOneByOne(ctx, nodes)
		return err
	})
	return existing, err
}

// createAtOnce creates nodes in one transaction. singly is true if they have to be created one by one instead: because
// some exist, or may exist after an unknown outcome, or because the transaction is too large.
func (r restoreRun) createAtOnce(ctx context.Context, nodes []plannedCreate) (singly bool, err error) {
	var ops []framework.TransactionOp
	for _, n := range nodes {
		b := r.v.TransactionOp().Create().Uncompressed()
		if n.acl != nil {
			b = b.WithACL(n.acl...)
		}
		ops = append(ops, b.ForPath(n.at, n.data))
	}
	_, err = r.v.TransactionInBackground(ctx, ops...).Wait(ctx)
	var refused *framework.TransactionError
	switch err = unwrapOpError(err); {
	case errors.Is(err, framework.ErrNodeExists), isTooLarge(err):
		return true, nil
	case errors.As(err, &refused):
		return false, wrapOpError("create", r.v.callerPath(nodes[refused.Index].at), refused.Err)
	}
	return errors.Is(err, framework.ErrOutcomeUnknown), err
}

// isTooLarge reports whether a request was not sent because it is too large.
func isTooLarge(err error) bool {
	return errors.Is(err, framework.ErrTooLarge) && !errors.Is(err, framework.ErrOutcomeUnknown)
}

// createOneByOne creates nodes in one flight, with one request for each. Nodes that exist already are overwritten or
// compared.
func (r restoreRun) createOneByOne(ctx context.Context, nodes []plannedCreate) (existing int, err error) {
	all := sendAll(nodes, func(n plannedCreate) *framework.Pending[framework.CreateResult] {
		b := r.v.Create().Uncompressed()
		if n.acl != nil {
			b = b.WithACL(n.acl...)
		}
		return b.InBackground().ForPath(ctx, n.at, n.data)
	})
	var there []plannedCreate
	err = awaitReplies(ctx, all, func(i int, _ framework.CreateResult, refused error) error {
		if errors.Is(refused, framework.ErrNodeExists) {
			there = append(there, nodes[i])
			return nil
		}
		return wrapOpError("create", r.v.callerPath(nodes[i].at), refused)
	})
	if err != nil || len(there) == 0 {
		return 0, err
	}
	if r.overwrite {
		return len(there), r.overwriteAll(ctx, there)
	}
	return len(there), r.compareNodes(ctx, there)
}

// reportPlan changes nothing: it calls plan with the step for each node, and returns how many of the nodes exist.
func (r restoreRun) reportPlan(ctx context.Context, nodes []plannedCreate) (existing int, err error) {
	steps := make([]RestoreStep, len(nodes))
	err = r.v.sendFlight(ctx, func(ctx context.Context) error {
		return awaitReplies(ctx, r.readExisting(ctx, nodes), func(i int, got framework.DataResult, refused error) error {
			switch {
			case errors.Is(refused, framework.ErrNoNode):
				steps[i] = RestoreCreate
			case refused != nil:
				return wrapOpError("getData", r.v.callerPath(nodes[i].at), refused)
			case r.overwrite:
				steps[i] = RestoreOverwrite
			case bytes.Equal(got.Data, nodes[i].data):
				steps[i] = RestoreSame
			default:
				steps[i] = RestoreConflict
			}
			return nil
		})
	})
	for i := 0; err == nil && i < len(nodes); i++ {
		if steps[i] != RestoreCreate {
			existing++
		}
		r.plan(r.v.callerPath(nodes[i].at), steps[i])
	}
	return existing, err
}

func (r restoreRun) readExisting(ctx context.Context, nodes []plannedCreate) []*framework.Pending[framework.DataResult] {
	return sendAll(nodes, func(n plannedCreate) *framework.Pending[framework.DataResult] {
		return r.v.GetData().Undecompressed().InBackground().ForPath(ctx, n.at)
	})
}

// compareNodes returns an error if a node that exists already has other data than the dump.
func (r restoreRun) compareNodes(ctx context.Context, nodes []plannedCreate) error {
	return awaitReplies(ctx, r.readExisting(ctx, nodes), func(i int, got framework.DataResult, refused error) error {
		if refused == nil && !bytes.Equal(got.Data, nodes[i].data) {
			refused = fmt.Errorf("%w: its data differ from the dump's; see Overwriting", framework.ErrNodeExists)
		}
		return wrapOpError("restore", r.v.callerPath(nodes[i].at), refused)
	})
}

// overwriteAll sets the data of the dump, and its ACLs, on nodes that exist already.
func (r restoreRun) overwriteAll(ctx context.Context, nodes []plannedCreate) error {
	var acls []*framework.Pending[framework.Stat]
	data := sendAll(nodes, func(n plannedCreate) *framework.Pending[framework.Stat] {
		set := r.v.SetData().Uncompressed().InBackground().ForPath(ctx, n.at, n.data)
		if n.acl != nil {
			acls = append(acls, r.v.SetACL().WithACL(n.acl...).InBackground().ForPath(ctx, n.at))
		}
		return set
	})
	each := func(i int, _ framework.Stat, refused error) error {
		return wrapOpError("restore", r.v.callerPath(nodes[i].at), refused)
	}
	err := awaitReplies(ctx, data, each)
	if failed := awaitReplies(ctx, acls, each); err == nil {
		err = failed
	}
	return err
}
