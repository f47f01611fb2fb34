package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// ErrInvalidDump says that a stream is not a dump, or is not complete. The message says in which line.
var ErrInvalidDump = named("invalid dump")

// ErrSystemPath says that a restore would write to /zookeeper or below, where the servers keep their
// configuration and the quotas. Nothing was written there. It is the error of a restore whose target is
// there; for a dump with a node that would lie there, the error matches [ErrInvalidDump], too.
var ErrSystemPath = named("/zookeeper belongs to the servers: nothing is restored there")

// RestoreBuilder creates the nodes of a dump. It is a value: each method returns a changed copy.
type RestoreBuilder struct {
	c         *Client
	overwrite bool
	progress  func(Progress)
	plan      func(path string, step RestoreStep)
}

// RestoreStep is what a restore would do to a node, see [RestoreBuilder.DryRun].
type RestoreStep int8

const (
	// RestoreCreate says that the node does not exist and would be created.
	RestoreCreate RestoreStep = iota + 1
	// RestoreSame says that the node exists with the data of the dump and would stay as it is.
	RestoreSame
	// RestoreOverwrite says that the node exists and would get the data and the ACL of the dump.
	RestoreOverwrite
	// RestoreConflict says that the node exists with other data, at which the restore would end.
	RestoreConflict
)

func (s RestoreStep) String() string {
	return nameOf("RestoreStep", s, "RestoreStep(0)", "create", "same", "overwrite", "conflict")
}

// Restore begins to create the nodes of a dump, see [Client.Dump]. Curator has no such operation.
func (c *Client) Restore() RestoreBuilder { return RestoreBuilder{c: c} }

// Overwriting sets the data and, if the dump has them, the ACLs of nodes that exist already. Nodes that are
// not in the dump stay in any case.
func (b RestoreBuilder) Overwriting() RestoreBuilder { b.overwrite = true; return b }

// DryRun makes ForPath change nothing. It reads the whole dump, and calls f for each node of it, in order and
// on ForPath's goroutine, with what the restore would do to the node at path if nobody else changed anything.
// It needs permission to read the nodes that exist. A conflict does not end it. It does not find out what the
// servers would refuse, such as a create without permission. [Progress] then counts what would be restored.
func (b RestoreBuilder) DryRun(f func(path string, step RestoreStep)) RestoreBuilder {
	if f == nil {
		f = func(string, RestoreStep) {} // still dry
	}
	b.plan = f
	return b
}

// WithProgress makes ForPath call f now and then, on its own goroutine; ForPath waits for f.
func (b RestoreBuilder) WithProgress(f func(Progress)) RestoreBuilder { b.progress = f; return b }

// restoreNodes and restoreBytes limit one transaction.
const (
	restoreNodes = 500
	restoreBytes = 256 << 10
)

// ForPath creates the dump's root at path, which may differ from where it was dumped, and everything below
// it. Missing parents of path are created as with Ensure. ForPath returns what it has created.
//
// A node that exists already with the data of the dump counts as restored; its ACL is not compared. A node
// with other data is ErrNodeExists, unless Overwriting. So a restore that was cut short can be run again.
//
// Nodes are created hundreds at a time, in transactions, as long as none of them exists. After a lost
// connection, about which the retry policy is asked, they are created one by one. The restore is not atomic:
// when it ends with an error, part of the nodes exist. The stream is read as the restore goes on, so damage
// (ErrInvalidDump) may be found late. ctx cannot interrupt a Read of r.
//
// A dump is not trusted. It can create nodes below path, with any data and ACLs, and nothing else. These are
// ErrInvalidDump, too:
//
//   - A node without an ACL although the header says that the nodes have ACLs: everybody could change it.
//   - A line longer than two frames (see [WithMaxFrame]) and a mebibyte.
//   - A node that would lie in /zookeeper, which is [ErrSystemPath], too.
//
// The restore keeps one line and a transaction of at most 500 nodes and 256 KiB in memory.
func (b RestoreBuilder) ForPath(ctx context.Context, path string, r io.Reader) (Progress, error) {
	var p Progress
	full, err := b.c.fullPath(path)
	if err == nil && r == nil {
		err = badArguments("Restore needs a reader")
	}
	if err == nil && isSystem(full) {
		err = ErrSystemPath
	}
	if err == nil {
		err = checkContext(ctx)
	}
	if err == nil {
		err = b.run(ctx, full, newDumpReader(r, b.c.core.cfg.maxFrame), &p)
	}
	return p, opError("restore", path, err)
}

func (b RestoreBuilder) run(ctx context.Context, root string, in *dumpReader, p *Progress) error {
	if err := in.header(); err != nil {
		return err
	}
	if b.plan == nil {
		if err := b.c.repeat(ctx, func(ctx context.Context, e *epoch) error {
			return b.above(ctx, e, root)
		}); err != nil {
			return err
		}
	}
	limit := min(restoreBytes, b.c.core.cfg.maxFrame/2)
	var batch []*jute.CreateRequest
	size := 0
	put := func() error {
		create := b.put
		if b.plan != nil {
			create = b.planned
		}
		existing, err := create(ctx, batch, in.acl)
		if err != nil {
			return err
		}
		for _, n := range batch {
			p.Bytes += int64(len(n.Data))
		}
		p.Nodes += int64(len(batch))
		p.Existing += int64(existing)
		p.Ephemerals = in.skipped
		batch, size = nil, 0
		if b.progress != nil {
			b.progress(*p)
		}
		return nil
	}
	for {
		node, err := in.next()
		if err != nil {
			return err
		}
		if node == nil {
			break
		}
		req, err := b.request(root, node, in)
		if err != nil {
			return err
		}
		more := sizeOf(req)
		if len(batch) > 0 && (len(batch) == restoreNodes || size+more > limit) {
			if err := put(); err != nil {
				return err
			}
		}
		batch, size = append(batch, req), size+more
	}
	if len(batch) > 0 {
		return put()
	}
	p.Ephemerals = in.skipped
	return nil
}

func (b RestoreBuilder) request(root string, node *dumpNode, in *dumpReader) (*jute.CreateRequest, error) {
	req := &jute.CreateRequest{Path: relocated(root, node.Path), Data: node.Data}
	switch {
	case isSystem(req.Path):
		return nil, known(ErrSystemPath, in.invalid("%s belongs to the servers: nothing is restored there",
			req.Path))
	case in.acl && len(node.ACL) == 0:
		return nil, in.invalid("%s has no ACL, though the header says that the dump contains ACLs", node.Path)
	case !in.acl:
		req.ACL = b.c.aclOf(nil, req.Path)
	default:
		for _, a := range node.ACL {
			req.ACL = append(req.ACL, jute.ACL(a))
		}
	}
	if req.Data == nil {
		req.Data = []byte{}
	}
	return req, nil
}

// sizeOf returns an upper bound for the length of a request in a transaction.
func sizeOf(req *jute.CreateRequest) int {
	const fixed, fixedACL = 32, 12
	n := fixed + len(req.Path) + len(req.Data)
	for _, a := range req.ACL {
		n += fixedACL + len(a.Scheme) + len(a.ID)
	}
	return n
}

// above creates the missing parents of the root. It does not create a chroot.
func (b RestoreBuilder) above(ctx context.Context, e *epoch, root string) error {
	chroot, parent := b.c.view.chroot, zkpath.Parent(root)
	switch {
	case root == b.c.view.chroot || parent == b.c.view.chroot:
		if err := send(ctx, e, b.c.expiring(readCall(jute.OpExists, chroot))); !isThere(err) {
			return b.c.absent(err, chroot)
		}
		return nil
	case parent == "/": // of the root, too
		return nil
	}
	_, err := b.c.mkdirs(ctx, e, parent, parents{mode: Persistent})
	return err
}

func relocated(root, path string) string {
	switch {
	case path == "/":
		return root
	case root == "/":
		return path
	}
	return root + path
}

// put creates nodes, parents first.
func (b RestoreBuilder) put(ctx context.Context, nodes []*jute.CreateRequest, withACL bool) (existing int,
	err error) {
	singly := len(nodes) == 1
	err = b.c.repeat(ctx, func(ctx context.Context, e *epoch) (err error) {
		if !singly {
			if singly, err = b.atOnce(ctx, e, nodes); err != nil || !singly {
				return err
			}
		}
		existing, err = b.one(ctx, e, nodes, withACL)
		return err
	})
	return existing, err
}

// atOnce creates nodes in one transaction. singly says that they must be created one by one, because some
// exist.
func (b RestoreBuilder) atOnce(ctx context.Context, e *epoch, nodes []*jute.CreateRequest) (singly bool,
	err error) {
	var req jute.MultiRequest
	for _, n := range nodes {
		req.Ops = append(req.Ops, jute.MultiOp{Op: jute.OpCreate, Request: n})
	}
	res := jute.MultiResponse{Asked: len(nodes)}
	if err := ask(ctx, e, b.c.expiring(newCall(jute.OpMulti, &req)), &res); err != nil {
		return errors.Is(err, ErrOutcomeUnknown), err
	}
	for i, one := range res.Results {
		// Results before the failed one have code 0.
		switch {
		case one.Op != jute.OpError || one.Err == jute.CodeOK:
		case one.Err == jute.CodeNodeExists:
			return true, nil
		default:
			return false, opError("create", b.c.userPath(nodes[min(i, len(nodes)-1)].Path),
				b.c.absent(codeError(one.Err), ""))
		}
	}
	return false, nil
}

// one creates nodes one by one, in one flight.
func (b RestoreBuilder) one(ctx context.Context, e *epoch, nodes []*jute.CreateRequest,
	withACL bool) (existing int, err error) {
	var calls []*wire.Call
	for _, n := range nodes {
		calls = append(calls, b.c.expiring(newCall(jute.OpCreate, n)))
	}
	replies, err := awaitAll(ctx, e, calls...)
	if err != nil {
		return 0, err
	}
	var there []*jute.CreateRequest
	for i, n := range nodes {
		switch err := replyError(replies[i]); {
		case errors.Is(err, ErrNodeExists):
			there = append(there, n)
		case unfinished(err):
			return 0, err
		case err != nil:
			return 0, opError("create", b.c.userPath(n.Path), b.c.absent(err, zkpath.Parent(n.Path)))
		}
	}
	if len(there) == 0 {
		return 0, nil
	}
	return len(there), b.existing(ctx, e, there, withACL)
}

// planned tells plan what would be done to nodes.
func (b RestoreBuilder) planned(ctx context.Context, nodes []*jute.CreateRequest, _ bool) (existing int,
	err error) {
	replies, err := flightOf(ctx, b.c, nodes, func(n *jute.CreateRequest) *wire.Call {
		return readCall(jute.OpGetData, n.Path)
	})
	if err != nil {
		return 0, err
	}
	for i, n := range nodes {
		var res jute.GetDataResponse
		step := RestoreSame
		switch err := replied(replies[i], &res); {
		case errors.Is(err, ErrNoNode):
			step = RestoreCreate
		case err != nil:
			return existing, opError("getData", b.c.userPath(n.Path), err)
		case b.overwrite:
			step = RestoreOverwrite
		case !bytes.Equal(res.Data, n.Data):
			step = RestoreConflict
		}
		if step != RestoreCreate {
			existing++
		}
		b.plan(b.c.userPath(n.Path), step)
	}
	return existing, nil
}

// existing compares nodes that exist already with the dump, or overwrites them if asked to.
func (b RestoreBuilder) existing(ctx context.Context, e *epoch, nodes []*jute.CreateRequest,
	withACL bool) error {
	var calls []*wire.Call
	for _, n := range nodes {
		call := readCall(jute.OpGetData, n.Path)
		if b.overwrite {
			call = setDataCall(n.Path, n.Data, -1)
		}
		calls = append(calls, b.c.expiring(call))
		if b.overwrite && withACL {
			req := &jute.SetACLRequest{Path: n.Path, ACL: n.ACL, Version: -1}
			calls = append(calls, b.c.expiring(newCall(jute.OpSetACL, req)))
		}
	}
	replies, err := awaitAll(ctx, e, calls...)
	if err != nil {
		return err
	}
	each := len(calls) / len(nodes)
	for i, r := range replies {
		n := nodes[i/each]
		err := replyError(r)
		if unfinished(err) {
			return err
		}
		var res jute.GetDataResponse
		if err == nil && !b.overwrite {
			if err = decode(r.Body, res.Fields); err == nil && !bytes.Equal(res.Data, n.Data) {
				err = fmt.Errorf("%w: its data differ from the dump's; see Overwriting", ErrNodeExists)
			}
		}
		if err != nil {
			return opError("restore", b.c.userPath(n.Path), b.c.absent(err, n.Path))
		}
	}
	return nil
}
