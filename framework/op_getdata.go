package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// DataResult is what GetData returns in the background.
type DataResult struct {
	Data []byte
	Stat Stat
	// Watch is set when one was asked for.
	Watch *Watch
}

// GetDataBuilder reads a node's data. It is a value: each method returns a changed copy.
type GetDataBuilder struct {
	c        *Client
	stat     *Stat
	pack     packing
	watching watching
}

// GetData begins to read a node's data. Corresponds to Curator's getData.
func (c *Client) GetData() GetDataBuilder { return GetDataBuilder{c: c} }

// StoringStatIn has the node's Stat written to stat when the operation succeeds.
func (b GetDataBuilder) StoringStatIn(stat *Stat) GetDataBuilder { b.stat = stat; return b }

// Decompressed unpacks the data with the client's compression provider, gzip unless told otherwise;
// ErrDecompress if that cannot be done. Empty data stay empty, since parents that were made on the way are
// never packed.
func (b GetDataBuilder) Decompressed() GetDataBuilder { b.pack = packYes; return b }

// Undecompressed returns the data as they are, also with [WithCompression].
func (b GetDataBuilder) Undecompressed() GetDataBuilder { b.pack = packNo; return b }

// Watching has f called once, with the next change or the deletion of the node, or the end of the session;
// see [Pending.Then] for where and when. It is not called when the read fails. Use WithWatch for a watch that
// can be stopped.
func (b GetDataBuilder) Watching(f func(Event)) GetDataBuilder { b.watching = watched(f); return b }

// WithWatch has the terminal return a watch for the next change or the deletion of the node.
func (b GetDataBuilder) WithWatch() Watched[GetDataBuilder, DataResult, []byte] {
	b.watching = watching{wanted: true}
	return Watched[GetDataBuilder, DataResult, []byte]{b}
}

// ForPath returns the node's data; ErrNoNode if there is no node.
func (b GetDataBuilder) ForPath(ctx context.Context, path string) ([]byte, error) {
	r, err := foreground(ctx, b.operation(path))
	return r.Data, err
}

// InBackground makes the terminal return at once.
func (b GetDataBuilder) InBackground() Background[GetDataBuilder, DataResult] {
	return Background[GetDataBuilder, DataResult]{b}
}

func (b GetDataBuilder) parts(r DataResult) ([]byte, *Watch) { return r.Data, r.Watch }

func (b GetDataBuilder) operation(path string) *operation[DataResult] {
	full, err := b.c.fullPath(path)
	w := b.watching.start(b.c, wire.Data, full)
	return &operation[DataResult]{
		c: b.c, name: "getData", path: path, fault: err, root: true, watch: w, lengthy: b.c.packs(b.pack),
		request: func(*epoch) *wire.Call { return readCall(jute.OpGetData, full) },
		decode: func(_ int64, body []byte) (r DataResult, err error) {
			var res jute.GetDataResponse
			if err := decode(body, &res); err != nil {
				return r, err
			}
			data, err := b.c.incoming(full, res.Data, b.pack)
			if err != nil {
				return r, err
			}
			store(b.stat, Stat(res.Stat))
			return DataResult{data, Stat(res.Stat), w}, nil
		},
	}
}
