package framework

import (
	"context"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Read is one of the reads of a [Client.MultiRead]. Make it with [ReadData] or [ReadChildren].
type Read struct {
	op   int32
	path string
}

// ReadData reads a node's data and Stat.
func ReadData(path string) Read { return Read{jute.OpGetData, path} }

// ReadChildren lists a node's children.
func ReadChildren(path string) Read { return Read{jute.OpGetChildren, path} }

func (r Read) operationName() string {
	if r.op == jute.OpGetChildren {
		return "getChildren"
	}
	return "getData"
}

// ReadResult is the outcome of one read.
type ReadResult struct {
	// Path is the path given to ReadData or ReadChildren.
	Path string
	// Data and Stat are the data and the Stat of the node, for ReadData.
	Data []byte
	Stat Stat
	// Children are the names of the children, in no particular order, for ReadChildren. Servers send no Stat with them.
	Children []string
	// Err is the error of this read alone, an *OpError: mostly ErrNoNode or ErrNoAuth.
	Err error
}

// MultiReadResult is the result of MultiRead in the background.
type MultiReadResult struct {
	// Results are in the order of the reads.
	Results []ReadResult
	// Zxid is the last transaction that the connected server had executed when it replied. If a later reply has the same
	// Zxid, nothing in the whole tree has changed in between.
	Zxid int64
}

// MultiReadBuilder reads many nodes in one request. It is a value.
type MultiReadBuilder struct {
	c           *Client
	compression compressionChoice
}

// MultiRead begins to read many nodes in one request, which costs the network and the server less than a request for
// each. Each read succeeds or fails by itself. The reads are not a snapshot: other clients may write between them. They
// cannot arm watches. Unlike other operations, MultiRead does not create the root of the namespace.
//
// It needs ZooKeeper 3.6; the error of an older server is ErrUnimplemented. Once for each server in a session, the
// client first probes the release, by one request or two. The request must fit into the server's packet limit (else
// ErrTooLarge), and the reply into [WithMaxReply] (else ErrReplyTooLarge): if you do not know the sizes of the nodes, read
// few at a time.
// Curator has no such operation.
func (c *Client) MultiRead() MultiReadBuilder { return MultiReadBuilder{c: c} }

// Decompressed decompresses the data, as in [GetDataBuilder]. A read whose data cannot be decompressed fails by itself.
// [WithDecompressedLimit] limits all reads together: a read that exceeds the rest of the limit also fails by itself.
func (b MultiReadBuilder) Decompressed() MultiReadBuilder { b.compression = compressionOn; return b }

// Undecompressed returns the data as they are, as in [GetDataBuilder].
func (b MultiReadBuilder) Undecompressed() MultiReadBuilder { b.compression = compressionOff; return b }

// ForReads executes the reads and returns their results in order. The returned error is about the whole request; the
// error of a single read is in its result's Err. Without reads the error is ErrBadArguments.
func (b MultiReadBuilder) ForReads(ctx context.Context, reads ...Read) ([]ReadResult, error) {
	r, err := runForeground(ctx, b.operation(reads))
	return r.Results, err
}

// InBackground makes ForReads return immediately.
func (b MultiReadBuilder) InBackground() MultiReadBackground { return MultiReadBackground{b} }

// MultiReadBackground is a MultiReadBuilder whose ForReads does not wait.
type MultiReadBackground struct{ builder MultiReadBuilder }

// ForReads queues the request and returns immediately. All errors are in the Pending.
func (b MultiReadBackground) ForReads(ctx context.Context, reads ...Read) *Pending[MultiReadResult] {
	return startBackground(ctx, b.builder.operation(reads))
}

func (b MultiReadBuilder) operation(reads []Read) *operation[MultiReadResult] {
	o := &operation[MultiReadResult]{
		c: b.c, name: "multiRead", slowToDecode: b.c.usesCompression(b.compression),
	}
	if len(reads) == 0 {
		o.argumentError = badArguments("a multiRead needs at least one read")
		return o
	}
	o.path = reads[0].path
	req := jute.MultiRequest{Ops: make([]jute.MultiOp, len(reads))}
	nodes := make([]jute.PathWatchRequest, len(reads))
	for i, r := range reads {
		full, err := b.c.fullPath(r.path)
		if r.op == 0 {
			err = badArguments("a read that was not made with ReadData or ReadChildren")
		}
		if err != nil {
			o.path, o.argumentError = r.path, err
			return o
		}
		nodes[i].Path = full
		req.Ops[i] = jute.MultiOp{Op: r.op, Request: &nodes[i]}
	}
	makeRequest := func() *wire.Call { return newCall(jute.OpMultiRead, &req) }
	decode := func(zxid int64, body []byte) (r MultiReadResult, err error) {
		results, err := b.c.readResults(reads, body)
		if err != nil {
			return r, err
		}
		if b.c.usesCompression(b.compression) {
			b.decompressResults(results)
		}
		return MultiReadResult{results, zxid}, nil
	}
	o.procedure = functionProcedure[MultiReadResult]{makeRequest: makeRequest, decode: decode}
	return o
}

// decompressResults decompresses the data of the results, within the limit for all together.
func (b MultiReadBuilder) decompressResults(results []ReadResult) {
	left := b.c.core.cfg.decompressedLimit
	for i := range results {
		r := &results[i]
		full, err := b.c.fullPath(r.Path)
		if err == nil && r.Err == nil {
			r.Data, err = b.c.decodeNodeDataUpTo(full, r.Data, b.compression, left)
			left -= len(r.Data)
		}
		if err != nil {
			r.Err = wrapOpError("getData", r.Path, err)
		}
	}
}

// readResults decodes the reply's body.
func (c *Client) readResults(reads []Read, body []byte) ([]ReadResult, error) {
	res := jute.MultiResponse{Asked: len(reads)}
	if err := decodeRecord(body, res.Fields); err != nil {
		return nil, err
	}
	if len(res.Results) != len(reads) {
		return nil, fmt.Errorf("%w: %d results for %d reads", ErrMalformedReply, len(res.Results), len(reads))
	}
	results := make([]ReadResult, len(reads))
	for i, r := range res.Results {
		read := reads[i]
		results[i] = ReadResult{Path: read.path, Data: r.Data, Stat: Stat(r.Stat), Children: r.Children}
		switch r.Op {
		case read.op:
		case jute.OpError:
			results[i].Err = wrapOpError(read.operationName(), read.path, c.addChrootHintAt(codeError(r.Err), read.path))
		default:
			return nil, fmt.Errorf("%w: result of type %d for read %d", ErrMalformedReply, r.Op, i)
		}
	}
	return results, nil
}
