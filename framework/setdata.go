package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// SetDataBuilder replaces a node's data. It is a value: each method returns a changed copy.
type SetDataBuilder struct {
	c       *Client
	version int32
	stat    *Stat
}

// SetData begins to replace a node's data. Corresponds to Curator's setData.
func (c *Client) SetData() SetDataBuilder { return SetDataBuilder{c: c, version: -1} }

// WithVersion has the operation fail with ErrBadVersion unless the node has this version. Default -1: any.
func (b SetDataBuilder) WithVersion(version int32) SetDataBuilder { b.version = version; return b }

// StoringStatIn has the node's new Stat written to stat when the operation succeeds.
func (b SetDataBuilder) StoringStatIn(stat *Stat) SetDataBuilder { b.stat = stat; return b }

// ForPath replaces the data and returns the node's new Stat. Nil data means the client's default data.
//
// After an unknown outcome it is repeated as the retry policy says. With a version a repeat cannot take effect twice; when it meets
// ErrBadVersion, that may be the success of the first try, and nothing in the tree can tell: the error is then ErrConnectionLoss (outcome
// unknown) and not ErrBadVersion. Without a version a repeat may overwrite what somebody else has written in between.
func (b SetDataBuilder) ForPath(ctx context.Context, path string, data []byte) (Stat, error) {
	return foreground(ctx, b.c, b.operation(path, data))
}

// InBackground makes the terminal return at once.
func (b SetDataBuilder) InBackground() SetDataBackground { return SetDataBackground{b} }

// SetDataBackground is a SetDataBuilder whose terminal does not wait.
type SetDataBackground struct{ b SetDataBuilder }

// ForPath queues the request. data must not be changed until it is done.
func (b SetDataBackground) ForPath(ctx context.Context, path string, data []byte) *Pending[Stat] {
	return background(ctx, b.b.c, b.b.operation(path, data))
}

func (b SetDataBuilder) operation(path string, data []byte) *operation[Stat] {
	full, err := b.c.fullPath(path)
	return rootIfMissing(&operation[Stat]{
		name: "setData", path: path, fault: err, write: true,
		call: func(*epoch) *wire.Call {
			return &wire.Call{Op: jute.OpSetData, Body: jute.Marshal(&jute.SetDataRequest{Path: full, Data: b.c.dataOr(data), Version: b.version})}
		},
		read:      readStat(b.stat),
		ambiguous: []error{ErrBadVersion},
	}, b.c)
}

// dataOr returns data, or the client's default data for nil.
func (c *Client) dataOr(data []byte) []byte {
	if data == nil {
		data = c.core.cfg.defaultData
	}
	if data == nil {
		data = []byte{} // null data is a thing of its own on the wire, which readers do not expect
	}
	return data
}
