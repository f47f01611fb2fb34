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
	c           *Client
	version     int32
	compression compressionChoice
	idempotent  bool
}

// SetData begins to replace a node's data. Corresponds to Curator's setData.
func (c *Client) SetData() SetDataBuilder { return SetDataBuilder{c: c, version: -1} }

// WithVersion makes the operation fail with ErrBadVersion unless the node has this version. Default -1: any
// version.
func (b SetDataBuilder) WithVersion(version int32) SetDataBuilder { b.version = version; return b }

// Compressed compresses the data with the client's compression provider, by default gzip.
func (b SetDataBuilder) Compressed() SetDataBuilder { b.compression = compressionOn; return b }

// Uncompressed writes the data as they are, also if the client has [WithCompression].
func (b SetDataBuilder) Uncompressed() SetDataBuilder { b.compression = compressionOff; return b }

// Idempotent lets a repeat succeed because of an earlier try of this same call. When a try's reply was lost
// and the repeat fails with ErrBadVersion, the client reads the node. If the node has the next version after
// the given one, with exactly these data, written since the call began, the call succeeds. Otherwise it fails
// as without Idempotent.
//
// If the node did not have the given version in the first place, the error is ErrBadVersion, whatever the data: of
// several clients that set one version, one succeeds. There is an exception: another client may write exactly the same
// data while the reply is lost, or so shortly before the call that this client had not seen its transaction. To tell
// the writes apart, put the client's name into the data.
//
// Idempotent needs permission to read the node. Without a version it has no effect. Curator's idempotent
// accepts the next version with the same data, whoever wrote them and when.
func (b SetDataBuilder) Idempotent() SetDataBuilder { b.idempotent = true; return b }

// ForPath replaces the data and returns the node's new Stat. Nil data means the client's default data.
//
// After an unknown outcome the write is repeated as the retry policy says. With a version it cannot take effect twice.
// If the repeat fails with ErrBadVersion, the client reads the node, in the same session. If the node was not changed
// since the call began, or only to the next version after the given one, with other data, no try was executed, and the
// error is ErrBadVersion. Otherwise the first try may have succeeded: without Idempotent the error is then
// ErrConnectionLoss (outcome unknown). Without a version a repeat may overwrite the write of another client in between.
func (b SetDataBuilder) ForPath(ctx context.Context, path string, data []byte) (Stat, error) {
	return runForeground(ctx, b.operation(path, data))
}

// InBackground makes ForPath return immediately.
func (b SetDataBuilder) InBackground() BackgroundWithData[SetDataBuilder, Stat] {
	return BackgroundWithData[SetDataBuilder, Stat]{b}
}

func (b SetDataBuilder) operation(path string, data []byte) *operation[Stat] {
	full, err := b.c.fullPath(path)
	if err == nil {
		data, err = b.c.encodeNodeData(full, data, b.compression)
	}
	o := &operation[Stat]{
		c: b.c, operationKind: operationKind{name: "setData", mutates: true, createsRoot: true}, path: path, argumentError: err,
		ambiguousErrors: []error{ErrBadVersion},
	}
	f := functionProcedure[Stat]{
		makeRequest: func(*sessionEpoch) *wire.Call { return setDataCall(full, data, b.version) }, decode: decodeStat,
	}
	if b.idempotent && b.version != -1 {
		o.unknownPolicy = unknownCompare
	}
	f.recovery = func(err error) recoveryStep[Stat] {
		if !errors.Is(err, errAmbiguous) {
			return nil
		}
		return func(ctx context.Context, r *operationRun[Stat]) (Stat, bool, error) {
			notExecuted := false
			stat, _, err := b.c.compareNode(ctx, r.epoch, full, data, err, func(stat Stat, same bool) bool {
				notExecuted = provesNotSet(r, stat, b.version, same)
				return b.idempotent && same && stat.Version == b.version+1 && stat.Mzxid > r.zxidBefore
			})
			if notExecuted {
				return r.clearUnknownOutcome()
			}
			return stat, false, err
		}
	}
	o.procedure = f
	return o
}

// provesNotSet reports whether a node that was read proves that no try has set its data with this version: it was
// not changed since, or only by the change after that version, which has left other data (same is false).
func provesNotSet[T any](r *operationRun[T], stat Stat, version int32, same bool) bool {
	return r.precedesTries(stat.Mzxid) || r.precedesTries(stat.Czxid) && stat.Version == version+1 && !same
}

// compareNode reads a node after the ambiguous error met. It returns no error if ours accepts its Stat; same
// reports whether the node has the data. there is false if the node does not exist.
func (c *Client) compareNode(
	ctx context.Context, e *sessionEpoch, full string, data []byte, ambiguous error, ours func(stat Stat, same bool) bool,
) (stat Stat, there bool, _ error) {
	var res jute.GetDataResponse
	err := sendAndDecode(ctx, e, e.limitPatience(readCall(jute.OpGetData, full)), &res)
	switch {
	case errors.Is(err, ErrNoNode):
		return stat, false, ambiguous // the missing node may have been our own
	case err != nil:
		return stat, true, unresolvedError(ambiguous, err)
	case ours(Stat(res.Stat), bytes.Equal(res.Data, data)):
		return Stat(res.Stat), true, nil
	}
	return stat, true, ambiguous
}

// unresolvedError returns the error when the read that was to settle an unknown outcome has failed with err. If the
// read was refused, the error contains met, since the outcome is as unknown as before.
func unresolvedError(ambiguous, err error) error {
	if isUnfinished(err) || errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w; cannot read the node to see whether the write was executed: %w", ambiguous, err)
}
