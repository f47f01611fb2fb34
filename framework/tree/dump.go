package tree

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// dumpLine is a line of a dump, see DumpBuilder.ForPath. Exactly one of its fields is set.
type dumpLine struct {
	Header  *dumpHeader  `json:"header,omitempty"`
	Node    *dumpNode    `json:"node,omitempty"`
	Skipped *dumpSkipped `json:"skipped,omitempty"`
	End     *dumpEnd     `json:"end,omitempty"`
}

func (l dumpLine) countRecords() (n int) {
	for _, is := range []bool{l.Header != nil, l.Node != nil, l.Skipped != nil, l.End != nil} {
		if is {
			n++
		}
	}
	return n
}

type dumpHeader struct {
	Version int    `json:"version"`
	Root    string `json:"root"`
	ACL     bool   `json:"acl"` // every node of the dump has its ACL
}

type dumpNode struct {
	Path string `json:"path"` // relative to the root, which is "/"
	Data []byte `json:"data,omitempty"`
	// ACL is empty only if the header's ACL is false.
	ACL []dumpACL `json:"acl,omitempty"`
	// The fields below are for human readers; Restore does not use them.
	Version  int32 `json:"version"`
	Cversion int32 `json:"cversion"`
	Ctime    int64 `json:"ctime"`
	Mtime    int64 `json:"mtime"`
}

type dumpACL struct {
	Perms  int32  `json:"perms"`
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
}

type dumpSkipped struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

type dumpEnd struct {
	Nodes   int64 `json:"nodes"`
	Skipped int64 `json:"skipped"`
}

const dumpVersion = 1

// Progress is the progress of a dump or a restore.
type Progress struct {
	// Nodes is the number of nodes written to the stream or restored so far. Bytes is the total length of their data.
	Nodes, Bytes int64
	// Ephemerals is the number of nodes that were left out because they belong to a session.
	Ephemerals int64
	// Existing is how many of the restored nodes existed already; 0 in a dump. After a lost connection, nodes that the
	// restore itself has created may be among them.
	Existing int64
}

// DumpBuilder writes a subtree to a stream. It is a value: each method returns a changed copy.
type DumpBuilder struct {
	c        *framework.Client
	noACL    bool
	progress func(Progress)
}

// Dump begins to write a subtree to a stream, for [Restore]. Curator has no such operation.
func Dump(c *framework.Client) DumpBuilder { return DumpBuilder{c: c} }

// WithoutACL leaves the ACLs out, which saves a request for each node. Restored nodes then get their ACLs
// from the restoring client's ACL provider.
func (b DumpBuilder) WithoutACL() DumpBuilder { b.noACL = true; return b }

// WithProgress makes ForPath call f after each flight, on the goroutine that called ForPath. The dump continues when f
// returns. Default: no function.
func (b DumpBuilder) WithProgress(f func(Progress)) DumpBuilder { b.progress = f; return b }

// ForPath writes the node and everything below it to w, in the order of [Walk], and returns the progress that it has
// made, also with an error. It blocks until the dump is complete, ctx ends or there is an error; ctx cannot interrupt a
// Write of w.
//
//   - Data are written as they are stored, compressed or not.
//   - Ephemeral nodes are left out. The stream has a line for each, and Progress counts them.
//   - /zookeeper, where the servers keep their own nodes, is left out unless path is /zookeeper or below.
//     Restore does not write there.
//   - Versions and times are written for information only. A restored node begins at version 0. A restored parent
//     numbers its next sequential child by the children that it has had since the restore, so that number may be
//     smaller than the numbers in restored names.
//   - Servers do not report whether a node is a container or has a TTL. Such a node is restored as a persistent node.
//
// The dump is not a snapshot: a node that changes during the dump is read before or after its change. After a lost
// connection the retry policy decides whether a flight is repeated. A dump that ends with an error is incomplete, and
// Restore will report that. The error is framework.ErrNoAuth if the client has no permission to read a node, or if the
// server hides a part of its ACL because the client has no PermAdmin; with WithoutACL permission to read is enough. An
// error of w ends the dump.
//
// The stream is JSON, one object per line, in UTF-8. Paths are relative to the root of the dump. Data are
// in base64, and left out if there are none. Every node has its ACL, or, WithoutACL, none has:
//
//	{"header":{"version":1,"root":"/config","acl":true}}
//	{"node":{"path":"/","data":"djE=","acl":[{"perms":31,"scheme":"world","id":"anyone"}],"version":3,…}}
//	{"node":{"path":"/app","acl":[…],"version":0,"cversion":1,"ctime":1700000000000,"mtime":…}}
//	{"skipped":{"path":"/app/worker-1","why":"ephemeral"}}
//	{"end":{"nodes":2,"skipped":1}}
func (b DumpBuilder) ForPath(ctx context.Context, path string, w io.Writer) (Progress, error) {
	var p Progress
	v, at, err := resolveView(b.c, path)
	if err == nil && w == nil {
		err = badArguments("Dump needs a writer")
	}
	if err == nil {
		out := bufio.NewWriterSize(w, 64<<10)
		lines := json.NewEncoder(out)
		lines.SetEscapeHTML(false)
		if err = lines.Encode(dumpLine{Header: &dumpHeader{dumpVersion, path, !b.noACL}}); err == nil {
			err = b.writeNodes(ctx, v, at, lines.Encode, &p)
		}
		if err == nil {
			err = lines.Encode(dumpLine{End: &dumpEnd{p.Nodes, p.Ephemerals}})
		}
		if err == nil {
			err = out.Flush()
		}
	}
	return p, wrapOpError("dump", path, err)
}

func (b DumpBuilder) writeNodes(ctx context.Context, v unscopedClient, root string, encode func(any) error, p *Progress) error {
	var ended error
	err := v.walkLevels(ctx, root, walkOptions{depth: -1, withACLs: !b.noACL, omitSystem: true},
		func(nodes []walkedNode) (more bool) {
			for _, n := range nodes {
				line, err := b.nodeLine(n, root)
				if err != nil {
					ended = wrapOpError("dump", v.callerPath(n.at), err)
					return false
				}
				if ended = encode(line); ended != nil {
					return false
				}
				if line.Skipped != nil {
					p.Ephemerals++
					continue
				}
				p.Nodes++
				p.Bytes += int64(len(n.Data))
			}
			if b.progress != nil {
				b.progress(*p)
			}
			return true
		})
	if ended != nil {
		return ended
	}
	return err
}

func (b DumpBuilder) nodeLine(n walkedNode, root string) (line dumpLine, err error) {
	if n.err != nil {
		return line, n.err
	}
	path := "/" + strings.TrimPrefix(strings.TrimPrefix(n.at, root), "/")
	if n.Stat.EphemeralOwner != 0 {
		return dumpLine{Skipped: &dumpSkipped{path, "ephemeral"}}, nil
	}
	s := n.Stat
	node := &dumpNode{Path: path, Data: n.Data, Version: s.Version, Cversion: s.Cversion, Ctime: s.Ctime,
		Mtime: s.Mtime}
	for _, a := range n.acl {
		if a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x") { // the server shows this in place of a digest
			return line, fmt.Errorf("%w: its ACL is shown only to clients with PermAdmin; see WithoutACL",
				framework.ErrNoAuth)
		}
		node.ACL = append(node.ACL, dumpACL{int32(a.Perms), a.Scheme, a.ID})
	}
	if len(node.ACL) == 0 && !b.noACL {
		return line, fmt.Errorf("%w: a node without an ACL", framework.ErrMalformedReply)
	}
	return dumpLine{Node: node}, nil
}

// dumpLineReader reads and checks the lines of a dump, which is not trusted.
type dumpLineReader struct {
	lines      *bufio.Scanner
	lineNumber int  // of the last line, from 1
	withACLs   bool // by the header
	nodes      int64
	skipped    int64
}

// newDumpLineReader returns a reader that refuses lines that are too long for any node that fits into a frame.
func newDumpLineReader(r io.Reader, maxFrame int) *dumpLineReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), 2*maxFrame+1<<20)
	return &dumpLineReader{lines: s}
}

func (d *dumpLineReader) invalidDump(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: "+format, append([]any{ErrInvalidDump, d.lineNumber}, args...)...)
}

func (d *dumpLineReader) readLine() (line dumpLine, err error) {
	d.lineNumber++
	if !d.lines.Scan() {
		switch err := d.lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return line, d.invalidDump("the line is too long for any node")
		case err != nil:
			return line, err
		}
		return line, d.invalidDump("the input ends before the dump is complete")
	}
	if err := json.Unmarshal(d.lines.Bytes(), &line); err != nil {
		return line, d.invalidDump("%v", err)
	}
	if n := line.countRecords(); n > 1 {
		return line, d.invalidDump("the line contains %d records instead of one", n)
	}
	return line, nil
}

func (d *dumpLineReader) readHeader() error {
	line, err := d.readLine()
	switch {
	case err != nil:
		return err
	case line.Header == nil:
		return d.invalidDump("the header is missing")
	case line.Header.Version != dumpVersion:
		return d.invalidDump("the dump has version %d, and this program reads version %d",
			line.Header.Version, dumpVersion)
	}
	d.withACLs = line.Header.ACL
	return nil
}

// next returns the next node; nil at the end of the dump.
func (d *dumpLineReader) next() (*dumpNode, error) {
	for {
		line, err := d.readLine()
		switch {
		case err != nil:
			return nil, err
		case line.Skipped != nil:
			d.skipped++
		case line.Node != nil:
			d.nodes++
			if err := zkpath.Validate(line.Node.Path, false); err != nil {
				return nil, d.invalidDump("%v", err)
			}
			if d.nodes == 1 && line.Node.Path != "/" {
				return nil, d.invalidDump("the first node is %s, not the root", plain.Text(line.Node.Path))
			}
			return line.Node, nil
		case line.End != nil:
			if line.End.Nodes != d.nodes || line.End.Skipped != d.skipped {
				return nil, d.invalidDump("%d nodes and %d skipped, but the end says %d and %d", d.nodes, d.skipped,
					line.End.Nodes, line.End.Skipped)
			}
			return nil, nil
		default:
			return nil, d.invalidDump("the line is neither a node nor the end of the dump")
		}
	}
}
