package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// SetDataBuilder replaces a node's data. It is a value: each method returns a changed copy.
type SetDataBuilder struct {
	c       *Client
	version int32
	pack    packing
	again   bool
}

// SetData begins to replace a node's data. Corresponds to Curator's setData.
func (c *Client) SetData() SetDataBuilder { return SetDataBuilder{c: c, version: -1} }

// WithVersion has the operation fail with ErrBadVersion unless the node has this version. Default -1: any.
func (b SetDataBuilder) WithVersion(version int32) SetDataBuilder { b.version = version; return b }

// Compressed packs the data with the client's compression provider, gzip unless told otherwise.
func (b SetDataBuilder) Compressed() SetDataBuilder { b.pack = packYes; return b }

// Uncompressed writes the data as they are, also with [WithCompression].
func (b SetDataBuilder) Uncompressed() SetDataBuilder { b.pack = packNo; return b }

// Idempotent forgives what a try of this same call may have done: when a try's reply was lost and the repeat meets ErrBadVersion, the node is read, and if
// it has the version after the one given, with just these data, written since the call began, that is the result. Else the error is the one of an unknown
// outcome, as without Idempotent. A version that was not the node's from the beginning is ErrBadVersion, whatever the data: of several clients that set one
// version, one succeeds. (Somebody else may write the very same while the reply is lost, or so shortly before the call that this client had not heard of
// it. Where that must be told apart, put the client's name into the data.) It needs the right to read the node. Without a version there is nothing to forgive.
//
// Curator's idempotent takes the next version with the same data for success, whoever wrote them and when.
func (b SetDataBuilder) Idempotent() SetDataBuilder { b.again = true; return b }

// ForPath replaces the data and returns the node's new Stat. Nil data means the client's default data.
//
// After an unknown outcome it is repeated as the retry policy says. With a version a repeat cannot take effect twice; when it meets
// ErrBadVersion, that may be the success of the first try, and without Idempotent nothing tells: the error is then ErrConnectionLoss (outcome
// unknown) and not ErrBadVersion. Without a version a repeat may overwrite what somebody else has written in between.
func (b SetDataBuilder) ForPath(ctx context.Context, path string, data []byte) (Stat, error) {
	return foreground(ctx, b.c, b.operation(path, data))
}

// InBackground makes the terminal return at once.
func (b SetDataBuilder) InBackground() BackgroundWithData[SetDataBuilder, Stat] {
	return BackgroundWithData[SetDataBuilder, Stat]{b}
}

func (b SetDataBuilder) client() *Client { return b.c }

func (b SetDataBuilder) operation(path string, data []byte) *operation[Stat] {
	full, err := b.c.fullPath(path)
	if err == nil {
		data, err = b.c.outgoing(full, data, b.pack)
	}
	o := &operation[Stat]{
		name: "setData", path: path, fault: err, write: true, decode: statDecoder, ambiguous: []error{ErrBadVersion},
		request: func(*epoch) *wire.Call { return setDataCall(full, data, b.version) },
	}
	if b.again && b.version != -1 {
		o.doubt = doubtCompares
		o.after = func(met error) step[Stat] {
			if !errors.Is(met, errAmbiguous) {
				return nil
			}
			return func(ctx context.Context, r *run[Stat]) (v Stat, again bool, _ error) {
				stat, same, err := b.c.compare(ctx, r.e, full, data)
				switch {
				case err == nil && same && stat.Version == b.version+1 && stat.Mzxid > r.before:
					return stat, false, nil
				case unlessNoNode(err) == nil:
					return v, false, met
				}
				return v, false, notSeen(met, err)
			}
		}
	}
	return withRoot(o, b.c)
}

// compare reads a node and says whether it has the data.
func (c *Client) compare(ctx context.Context, e *epoch, full string, data []byte) (stat Stat, same bool, err error) {
	var res jute.GetDataResponse
	err = ask(ctx, e, c.expiring(dataCall(full)), &res)
	return Stat(res.Stat), err == nil && bytes.Equal(res.Data, data), err
}

// notSeen is the error of reading, after an unknown outcome, what became of the try: met, if the read was refused, since
// then no more is known than before.
func notSeen(met, err error) error {
	if unfinished(err) || errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w; looking at what is there: %w", met, err)
}

// dataOr returns data, or the client's default data for nil.
func (c *Client) dataOr(data []byte) []byte {
	if data == nil {
		data = c.core.cfg.defaultData
	}
	if data == nil {
		data = []byte{} // null data are another thing on the wire, which readers do not expect
	}
	return data
}
