package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Node is a node that a walk has read.
type Node struct {
	Path string
	// Data is nil if the walk is WithoutData.
	Data []byte
	Stat framework.Stat
}

// WalkBuilder reads a node and everything below it. It is a value: each method returns a changed copy.
type WalkBuilder struct {
	c       *framework.Client
	options walkOptions
}

type walkOptions struct {
	depth       int // levels below the first node; negative: all
	withoutData bool
	withACLs    bool
	omitSystem  bool // leave /zookeeper out
}

// Walk begins to read a subtree. Curator has no such operation.
func Walk(c *framework.Client) WalkBuilder { return WalkBuilder{c: c, options: walkOptions{depth: -1}} }

// WithoutData makes the walk read no data.
func (b WalkBuilder) WithoutData() WalkBuilder { b.options.withoutData = true; return b }

// MaxDepth limits the walk to this many levels below its first node; 0 reads only that node, a negative number means no
// limit. Default: no limit.
func (b WalkBuilder) MaxDepth(levels int) WalkBuilder { b.options.depth = levels; return b }

// ForPath returns the nodes of the subtree as a sequence for range: the node itself first, parents before their
// children, level by level, siblings in the order of their names. The loop reads hundreds of nodes at a time, with few
// requests: one for 64 nodes ([framework.Client.MultiRead]; one for each node before ZooKeeper 3.6, or WithoutData),
// and one more for each node that has children. No request is in flight while the body of the loop runs, so the loop
// may end at any node. The walk keeps one flight and the paths of one level in memory.
//
// The walk is not a snapshot: each node is read at a different time. Nodes that are created or deleted during the walk
// may be yielded or not. Without changes each node is yielded once.
//
// A node that the client has no permission to read, or whose data cannot be decompressed ([framework.WithCompression]),
// comes with an error that matches framework.ErrNoAuth or framework.ErrDecompress. The walk continues, but not below a
// node that it cannot read. (If the walk is WithoutData, servers before 3.8.4 and 3.9.2 show the Stat of such a node
// all the same.) Any other error is the last value of the loop: framework.ErrNoNode if the node at path does not exist,
// the error of ctx, and, when the retry policy allows no more repeats of a flight, the errors that every operation can
// return.
//
//	for node, err := range tree.Walk(client).ForPath(ctx, "/config") {
//		if err != nil { … }
func (b WalkBuilder) ForPath(ctx context.Context, path string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		v, at, err := resolveView(b.c, path)
		stopped := false
		if err == nil {
			err = v.walkLevels(ctx, at, b.options, func(nodes []walkedNode) (more bool) {
				for _, n := range nodes {
					n.Path = v.callerPath(n.at)
					if n.err == nil {
						n.Data, n.err = v.decompressData(n.at, n.Data)
					}
					if !yield(n.Node, wrapOpError("walk", n.Path, n.err)) {
						stopped = true
						return false
					}
				}
				return true
			})
		}
		if err != nil && !stopped {
			yield(Node{Path: path}, wrapOpError("walk", path, unwrapOpError(err)))
		}
	}
}

// decompressData returns a node's data as the client reads them: decompressed if it has WithCompression. The limit of
// WithDecompressedLimit is for each node, since only one is decompressed at a time.
func (v unscopedClient) decompressData(at string, data []byte) ([]byte, error) {
	plain, err := v.UnpackedUpTo(at, data, math.MaxInt)
	if err != nil {
		return nil, err
	}
	return plain, nil
}

type walkedNode struct {
	Node
	at    string // its path in the unscopedClient
	depth int
	acl   []framework.ACL
	err   error // of this node only: ErrNoAuth, or an error of decompressData
}

// walkLevels reads a subtree, flight by flight, and calls each with the nodes of each flight, until it has read all or
// each returns false.
func (v unscopedClient) walkLevels(ctx context.Context, at string, what walkOptions, each func([]walkedNode) bool) error {
	size := flightSize
	for queue := []walkedNode{{at: at}}; len(queue) > 0; {
		flight := queue[:min(size, len(queue))]
		queue = queue[len(flight):]
		nodes, bytes, err := v.readNodes(ctx, flight, what)
		if err != nil {
			return err
		}
		if !each(nodes) {
			return nil
		}
		size = flightSize
		if bytes > flightBytes { // the next nodes may have as many data
			size = max(1, len(flight)*flightBytes/bytes)
		}
		below, err := v.listNodes(ctx, nodes, what)
		if err != nil {
			return err
		}
		queue = append(queue, below...)
	}
	return nil
}

// multiReadSize is the number of nodes that are read with one MultiRead.
const multiReadSize = 64

// readNodes reads nodes in one flight. It leaves out nodes that no longer exist, except the first node of the walk:
// then it returns ErrNoNode.
func (v unscopedClient) readNodes(ctx context.Context, flight []walkedNode, what walkOptions) (nodes []walkedNode, bytes int, err error) {
	read, err := v.readFlight(ctx, flight, what, !what.withoutData)
	if matchesAny(err, framework.ErrUnimplemented, framework.ErrTooLarge, framework.ErrReplyTooLarge) && !what.withoutData {
		read, err = v.readFlight(ctx, flight, what, false) // a server before 3.6, or too large for one request or reply
	}
	if err != nil {
		return nil, 0, err
	}
	for _, n := range read {
		switch {
		case errors.Is(n.err, framework.ErrNoNode) && n.depth > 0:
			continue
		case n.err != nil && !errors.Is(n.err, framework.ErrNoAuth):
			return nil, 0, n.err
		}
		bytes += len(n.Data)
		nodes = append(nodes, n)
	}
	return nodes, bytes, nil
}

// readFlight reads nodes in one flight, with MultiReads if multi is true. If a node cannot be read, its err is the
// reason.
func (v unscopedClient) readFlight(ctx context.Context, flight []walkedNode, what walkOptions, multi bool) (read []walkedNode, err error) {
	err = v.sendFlight(ctx, func(ctx context.Context) error {
		read = slices.Clone(flight)
		var acls []*framework.Pending[framework.ACLResult]
		requestACLs := func() {
			if what.withACLs {
				acls = sendAll(read, func(n walkedNode) *framework.Pending[framework.ACLResult] {
					return v.GetACL().InBackground().ForPath(ctx, n.at)
				})
			}
		}
		readNodes := v.readEach
		switch {
		case multi:
			readNodes = v.readTogether
		case what.withoutData:
			readNodes = v.readStats
		}
		err := readNodes(ctx, read, requestACLs)
		if failed := awaitReplies(ctx, acls, func(i int, r framework.ACLResult, refused error) error {
			if read[i].acl = r.ACL; read[i].err == nil {
				read[i].err = refused
			}
			return nil
		}); err == nil {
			err = failed
		}
		return err
	})
	return read, err
}

// readTogether reads nodes with MultiReads. also sends the other requests of the same flight.
func (v unscopedClient) readTogether(ctx context.Context, nodes []walkedNode, also func()) error {
	chunks := slices.Collect(slices.Chunk(nodes, multiReadSize))
	all := sendAll(chunks, func(some []walkedNode) *framework.Pending[framework.MultiReadResult] {
		reads := make([]framework.Read, len(some))
		for i, n := range some {
			reads[i] = framework.ReadData(n.at)
		}
		return v.MultiRead().Undecompressed().InBackground().ForReads(ctx, reads...)
	})
	also()
	return awaitReplies(ctx, all, func(i int, r framework.MultiReadResult, refused error) error {
		for j, result := range r.Results {
			n := &chunks[i][j]
			n.Data, n.Stat, n.err = result.Data, result.Stat, unwrapOpError(result.Err)
		}
		return refused
	})
}

// readEach reads nodes with a GetData for each.
func (v unscopedClient) readEach(ctx context.Context, nodes []walkedNode, also func()) error {
	all := sendAll(nodes, func(n walkedNode) *framework.Pending[framework.DataResult] {
		return v.GetData().Undecompressed().InBackground().ForPath(ctx, n.at)
	})
	also()
	return awaitReplies(ctx, all, func(i int, r framework.DataResult, refused error) error {
		nodes[i].Data, nodes[i].Stat, nodes[i].err = r.Data, r.Stat, refused
		return nil
	})
}

// readStats reads the Stat of each node, without data.
func (v unscopedClient) readStats(ctx context.Context, nodes []walkedNode, also func()) error {
	all := sendAll(nodes, func(n walkedNode) *framework.Pending[framework.ExistsResult] {
		return v.CheckExists().InBackground().ForPath(ctx, n.at)
	})
	also()
	return awaitReplies(ctx, all, func(i int, r framework.ExistsResult, refused error) error {
		switch n := &nodes[i]; {
		case refused != nil:
			n.err = refused
		case r.Stat != nil:
			n.Stat = *r.Stat
		case n.at == "/":
			n.err = fmt.Errorf("%w: create %s, or correct the connect string", framework.ErrNoChroot, v.chroot)
		default:
			n.err = framework.ErrNoNode
		}
		return nil
	})
}

// listNodes returns the children of the nodes, to be read next.
func (v unscopedClient) listNodes(ctx context.Context, nodes []walkedNode, what walkOptions) (below []walkedNode, err error) {
	var parents []walkedNode
	var dirs []string
	for _, n := range nodes {
		if n.err == nil && n.Stat.NumChildren > 0 && n.depth != what.depth {
			parents, dirs = append(parents, n), append(dirs, n.at)
		}
	}
	if len(dirs) == 0 {
		return nil, nil
	}
	err = v.listDirectories(ctx, dirs, func(i int, names []string, err error) error {
		if matchesAny(err, framework.ErrNoNode, framework.ErrNoAuth) { // changed since it was read
			return nil
		}
		slices.Sort(names)
		for _, name := range names {
			at := zkpath.Join(dirs[i], name)
			if what.omitSystem && relocatePath(v.chroot, at) == systemPath {
				continue
			}
			below = append(below, walkedNode{at: at, depth: parents[i].depth + 1})
		}
		return err
	})
	return below, err
}
