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

// Idempotent lets a repeat succeed because of an earlier try of this same call. When a try's reply was lost and the
// repeat fails with ErrBadVersion, the client reads the node. If the node has the next version after the given one, with
// exactly these data, written since the call began, the call succeeds. Otherwise it fails as without Idempotent.
//
// If the node has another version than the given one before the call, the error is ErrBadVersion, whatever the data: of
// several clients that set one version, one succeeds. There is an exception: another client may write exactly the same
// data while the reply is lost, or so shortly before the call that this client had not seen its transaction. To
// distinguish the writes, put the client's name into the data.
//
// Idempotent needs permission to read the node. Without a version it has no effect. Curator's idempotent accepts the
// next version with the same data, whichever client wrote them and when.
func (b SetDataBuilder) Idempotent() SetDataBuilder { b.idempotent = true; return b }

// ForPath replaces the data and returns the node's new Stat. Nil data means the client's default data.
//
// Errors: ErrNoNode, ErrBadVersion, and the errors that every operation can return. After an unknown outcome the write
// is repeated as the retry policy allows:
//
//   - Without a version the repeat may overwrite a write by another client in between.
//   - With a version the write cannot take effect twice. If the repeat fails with ErrBadVersion, the client reads the
//     node, in the same session. If no try was executed, the error is ErrBadVersion: the node has not changed since the
//     call began, or it has the next version after the given one, with other data. Otherwise the first try may have
//     succeeded: the error is ErrConnectionLoss (outcome unknown), unless Idempotent attributes the change to this call.
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
		c: b.c, name: "setData", mutates: true, createsRoot: true, path: path,
		argumentError: err, ambiguousErrors: []error{ErrBadVersion},
	}
	f := functionProcedure[Stat]{
		makeRequest: func() *wire.Call { return setDataCall(full, data, b.version) }, decode: decodeStat,
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

// provesNotSet reports whether a node proves that no try has set its data with this version: it has not changed since
// the first try, or it was not created again and the change after that version has written other data (same is false).
func provesNotSet[T any](r *operationRun[T], stat Stat, version int32, same bool) bool {
	return r.precedesTries(stat.Mzxid) || r.precedesTries(stat.Czxid) && stat.Version == version+1 && !same
}

// compareNode reads a node after the error ambiguous, and passes its Stat to ours; same reports whether it has the data.
// If ours returns true, the node is from a try of this operation, and there is no error. Otherwise the error is
// ambiguous. exists is false if the node does not exist.
func (c *Client) compareNode(
	ctx context.Context, e *sessionEpoch, full string, data []byte, ambiguous error, ours func(stat Stat, same bool) bool,
) (stat Stat, exists bool, _ error) {
	var res jute.GetDataResponse
	err := sendAndDecode(ctx, e, e.limitPatience(readCall(jute.OpGetData, full)), &res)
	switch {
	case errors.Is(err, ErrNoNode):
		return stat, false, ambiguous // a try may have succeeded, and another client may have deleted the node since
	case err != nil:
		return stat, true, unresolvedError(ambiguous, err)
	case ours(Stat(res.Stat), bytes.Equal(res.Data, data)):
		return Stat(res.Stat), true, nil
	}
	return stat, true, ambiguous
}

// unresolvedError returns the error of an operation whose outcome stays unknown because the read after the error
// ambiguous has failed with err. If the server has refused the read, the result matches ambiguous, too.
func unresolvedError(ambiguous, err error) error {
	if isUnfinished(err) || errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w; cannot read the node to see whether the write was executed: %w", ambiguous, err)
}
