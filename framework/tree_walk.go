package framework

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// WalkedNode is a node that a walk has read.
type WalkedNode struct {
	Path string
	// Data is nil with WithoutData.
	Data []byte
	Stat Stat
}

// WalkBuilder reads a node and everything below it. It is a value: each method returns a changed copy.
type WalkBuilder struct {
	c    *Client
	what walking
}

// walking says what is read of a subtree.
type walking struct {
	depth  int  // levels below the first node; negative: all
	bare   bool // without data
	raw    bool // data as they are stored
	acl    bool
	system bool // leave /zookeeper out
}

// Walk begins to read a subtree. Curator has no such operation.
func (c *Client) Walk() WalkBuilder { return WalkBuilder{c: c, what: walking{depth: -1}} }

// WithoutData makes the walk read no data.
func (b WalkBuilder) WithoutData() WalkBuilder { b.what.bare = true; return b }

// MaxDepth ends the walk this many levels below its first node; 0 reads only that node. Default: no limit, as
// with a negative number.
func (b WalkBuilder) MaxDepth(levels int) WalkBuilder { b.what.depth = levels; return b }

// ForPath walks through the subtree: the node itself first, parents before their children, level by level,
// siblings in the order of their names. Before it yields nodes to the loop it reads hundreds at a time, with
// few requests: one for 64 nodes (MultiRead; one for each node before ZooKeeper 3.6, or WithoutData), and one
// more for each node that has children. Between two flights of requests nothing runs, and leaving the loop
// leaves nothing behind. The walk keeps one flight and the paths of one level in memory.
//
// The walk is no snapshot: each node is read at its own moment. Nodes that are created or deleted meanwhile
// may be seen or not. Without changes each node is seen once.
//
// A node that the client has no permission to read, or whose data cannot be decompressed ([WithCompression]),
// comes with an error that matches ErrNoAuth or ErrDecompress. The walk goes on, but not below a node that it
// cannot read. (WithoutData servers before 3.8.4 and 3.9.2 show the Stat of such a node all the same.) Any other error ends the loop: ErrNoNode if the node at path does not exist, the error of ctx,
// and the errors that every operation can return when the retry policy, which is asked about each flight,
// has given up.
//
//	for node, err := range client.Walk().ForPath(ctx, "/config") {
//		if err != nil { … }
func (b WalkBuilder) ForPath(ctx context.Context, path string) iter.Seq2[WalkedNode, error] {
	return func(yield func(WalkedNode, error) bool) {
		full, err := b.c.fullPath(path)
		left := false
		if err == nil {
			err = b.c.walk(ctx, full, b.what, func(nodes []walked) (more bool) {
				for _, n := range nodes {
					n.Path = b.c.userPath(n.full)
					if !b.what.raw && n.err == nil {
						n.Data, n.err = b.c.incoming(n.full, n.Data, packDefault)
					}
					if !yield(n.WalkedNode, opError("walk", n.Path, n.err)) {
						left = true
						return false
					}
				}
				return true
			})
		}
		if err != nil && !left {
			yield(WalkedNode{Path: path}, opError("walk", path, b.c.absent(err, full)))
		}
	}
}

type walked struct {
	WalkedNode
	full  string
	depth int
	acl   []jute.ACL
	err   error // of this node only: ErrNoAuth, or from decompressing its data
}

// walk reads a subtree, flight by flight, until it has read all or each returns false.
func (c *Client) walk(ctx context.Context, full string, what walking, each func([]walked) bool) error {
	size := flightSize
	for queue := []walked{{full: full}}; len(queue) > 0; {
		flight := queue[:min(size, len(queue))]
		queue = queue[len(flight):]
		nodes, bytes, err := c.readNodes(ctx, flight, what)
		if err != nil {
			return err
		}
		if len(nodes) == 0 && flight[0].depth == 0 {
			return ErrNoNode
		}
		if !each(nodes) {
			return nil
		}
		size = flightSize
		if bytes > flightBytes {
			size = max(1, len(flight)*flightBytes/bytes)
		}
		below, err := c.listNodes(ctx, nodes, what)
		if err != nil {
			return err
		}
		queue = append(queue, below...)
	}
	return nil
}

const multiReadSize = 64

// readNodes reads nodes in one flight. It leaves out nodes that no longer exist.
func (c *Client) readNodes(ctx context.Context, flight []walked, what walking) (nodes []walked, bytes int,
	err error) {
	read := slices.Clone(flight)
	ask := func(multi bool) error {
		replies, err := c.flight(ctx, func() []*wire.Call {
			calls := readCalls(read, what, multi)
			if what.acl {
				calls = append(calls, callsOf(read, func(n walked) *wire.Call {
					return newCall(jute.OpGetACL, &jute.PathRequest{Path: n.full})
				})...)
			}
			return calls
		})
		if err == nil {
			err = fill(read, replies, what, multi)
		}
		return err
	}
	err = ask(!what.bare)
	if !what.bare && (errors.Is(err, ErrUnimplemented) || errors.Is(err, ErrTooLarge) ||
		errors.Is(err, ErrReplyTooLarge)) {
		err = ask(false) // a server before 3.6, or very long paths, or much data
	}
	if err != nil {
		return nil, 0, err
	}
	for _, n := range read {
		switch {
		case errors.Is(n.err, ErrNoNode):
			continue
		case n.err != nil && !errors.Is(n.err, ErrNoAuth):
			return nil, 0, n.err
		}
		bytes += len(n.Data)
		nodes = append(nodes, n)
	}
	return nodes, bytes, nil
}

func readCalls(nodes []walked, what walking, multi bool) (calls []*wire.Call) {
	switch {
	case multi:
		for some := range slices.Chunk(nodes, multiReadSize) {
			var req jute.MultiRequest
			for _, n := range some {
				read := &jute.PathWatchRequest{Path: n.full}
				req.Ops = append(req.Ops, jute.MultiOp{Op: jute.OpGetData, Request: read})
			}
			calls = append(calls, newCall(jute.OpMultiRead, &req))
		}
		return calls
	case what.bare:
		return callsOf(nodes, func(n walked) *wire.Call { return readCall(jute.OpExists, n.full) })
	}
	return callsOf(nodes, func(n walked) *wire.Call { return readCall(jute.OpGetData, n.full) })
}

// fill puts the replies into the nodes: first those to readCalls, then those about the ACLs.
func fill(nodes []walked, replies []wire.Reply, what walking, multi bool) error {
	if multi {
		for some := range slices.Chunk(nodes, multiReadSize) {
			if err := fillTogether(some, replies[0]); err != nil {
				return err
			}
			replies = replies[1:]
		}
	} else {
		for i := range nodes {
			nodes[i].err = nodes[i].read(replies[i], what)
		}
		replies = replies[len(nodes):]
	}
	for i, r := range replies {
		n := &nodes[i]
		var res jute.GetACLResponse
		err := replied(r, &res)
		if n.acl = res.ACL; n.err == nil {
			n.err = err
		}
	}
	return nil
}

// fillTogether puts the reply to a multiRead into its nodes.
func fillTogether(nodes []walked, r wire.Reply) error {
	if err := replyError(r); err != nil {
		return err
	}
	reads := make([]Read, len(nodes))
	for i := range reads {
		reads[i] = ReadData(nodes[i].full)
	}
	results, err := new(Client).readResults(reads, r.Body)
	for i := range results {
		nodes[i].Data, nodes[i].Stat = results[i].Data, results[i].Stat
		nodes[i].err = errors.Unwrap(results[i].Err)
	}
	return err
}

func (n *walked) read(r wire.Reply, what walking) error {
	if what.bare {
		var res jute.StatResponse
		err := replied(r, &res)
		n.Stat = Stat(res.Stat)
		return err
	}
	var res jute.GetDataResponse
	err := replied(r, &res)
	n.Data, n.Stat = res.Data, Stat(res.Stat)
	return err
}

func (c *Client) listNodes(ctx context.Context, nodes []walked, what walking) (below []walked, err error) {
	var parents []walked
	var dirs []string
	for _, n := range nodes {
		if n.err == nil && n.Stat.NumChildren > 0 && n.depth != what.depth {
			parents, dirs = append(parents, n), append(dirs, n.full)
		}
	}
	if len(dirs) == 0 {
		return nil, nil
	}
	err = c.lists(ctx, dirs, func(i int, names []string, err error) error {
		if errors.Is(err, ErrNoNode) || errors.Is(err, ErrNoAuth) { // since it was read
			return nil
		}
		slices.Sort(names)
		for _, name := range names {
			full := zkpath.Join(dirs[i], name)
			if what.system && full == systemPath {
				continue
			}
			below = append(below, walked{full: full, depth: parents[i].depth + 1})
		}
		return err
	})
	return below, err
}

const systemPath = "/zookeeper"

// isSystem reports whether a full path is /zookeeper or below it.
func isSystem(full string) bool { return full == systemPath || strings.HasPrefix(full, systemPath+"/") }
