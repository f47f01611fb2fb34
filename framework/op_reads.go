package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// ExistsResult is the result of CheckExists in the background.
type ExistsResult struct {
	// Stat is nil if the node does not exist.
	Stat *Stat
	// Watch is the watch of WithWatch; otherwise nil.
	Watch *Watch
}

// ExistsBuilder reads whether a node exists. It is a value: each method returns a changed copy.
type ExistsBuilder struct {
	c        *Client
	watching watchOptions
}

// CheckExists begins to read whether a node exists. Servers since 3.8.4 and 3.9.2 require READ permission on the node.
// Without it the error matches ErrNoAuth, which implies that the node exists. Earlier servers require no permission.
// Corresponds to Curator's checkExists.
func (c *Client) CheckExists() ExistsBuilder { return ExistsBuilder{c: c} }

// Watching makes the client call f once: when the node is created, changed or deleted, or when the session ends.
// [Pending.Then] describes the goroutine and the order of calls. f is not called if the read fails. Use WithWatch for a
// watch that can be stopped.
func (b ExistsBuilder) Watching(f func(Event)) ExistsBuilder { b.watching = callbackWatch(f); return b }

// WithWatch makes ForPath also return a watch for the creation, the next change or the deletion of the node.
func (b ExistsBuilder) WithWatch() Watched[ExistsBuilder, ExistsResult, *Stat] {
	b.watching = watchOptions{wanted: true}
	return Watched[ExistsBuilder, ExistsResult, *Stat]{b}
}

// WatchedBy makes the read arm a watch of the set: for the creation, the next change or the deletion of the
// node, which need not exist. A read that fails arms none. The result has no Watch.
func (b ExistsBuilder) WatchedBy(set *WatchSet) ExistsBuilder {
	b.watching = watchOptions{set: set}
	return b
}

// ForPath returns the node's Stat; nil if the node does not exist, which is no error.
func (b ExistsBuilder) ForPath(ctx context.Context, path string) (*Stat, error) {
	r, err := runForeground(ctx, b.operation(path))
	return r.Stat, err
}

// InBackground makes ForPath return immediately.
func (b ExistsBuilder) InBackground() Background[ExistsBuilder, ExistsResult] {
	return Background[ExistsBuilder, ExistsResult]{builder: b}
}

func (b ExistsBuilder) parts(r ExistsResult) (*Stat, *Watch) { return r.Stat, r.Watch }

func (b ExistsBuilder) operation(path string) *operation[ExistsResult] {
	full, err := b.c.fullPath(path)
	x := &existsProcedure{full: full}
	o := &x.operation
	o.c, o.name, o.createsRoot, o.path, o.argumentError = b.c, "exists", true, path, err
	x.resultWatch, o.watch = b.watching.newArmer(b.c, wire.Data, full)
	x.absentResult.Watch = x.resultWatch
	o.resultIfAbsent, o.procedure = &x.absentResult, x
	return o
}

// existsProcedure is the procedure of an [ExistsBuilder].
type existsProcedure struct {
	operation[ExistsResult]
	full         string
	absentResult ExistsResult
	resultWatch  *Watch
}

func (x *existsProcedure) newRequest(*sessionEpoch) *wire.Call {
	return readCall(jute.OpExists, x.full)
}

func (x *existsProcedure) decodeReply(zxid int64, body []byte) (r ExistsResult, err error) {
	stat, err := decodeStat(zxid, body)
	if err != nil {
		return r, err
	}
	return ExistsResult{&stat, x.resultWatch}, nil
}

func (x *existsProcedure) recoveryAfter(error) recoveryStep[ExistsResult] { return nil }

// DataResult is the result of GetData in the background.
type DataResult struct {
	Data []byte
	Stat Stat
	// Watch is the watch of WithWatch; otherwise nil.
	Watch *Watch
}

// GetDataBuilder reads a node's data. It is a value: each method returns a changed copy.
type GetDataBuilder struct {
	c           *Client
	storeStat   *Stat
	compression compressionChoice
	watching    watchOptions
}

// GetData begins to read a node's data. Corresponds to Curator's getData.
func (c *Client) GetData() GetDataBuilder { return GetDataBuilder{c: c} }

// StoringStatIn makes the operation write the node's Stat to stat when it succeeds. In the background, read
// stat only after the operation has ended.
func (b GetDataBuilder) StoringStatIn(stat *Stat) GetDataBuilder { b.storeStat = stat; return b }

// Decompressed decompresses the data with the client's compression provider, by default gzip. If that fails, the error
// is ErrDecompress. Empty data stay empty, because the data of parents created on the way are never compressed.
func (b GetDataBuilder) Decompressed() GetDataBuilder { b.compression = compressionOn; return b }

// Undecompressed returns the data as they are, also if the client has [WithCompression].
func (b GetDataBuilder) Undecompressed() GetDataBuilder { b.compression = compressionOff; return b }

// Watching makes the client call f once: when the node is changed or deleted, or when the session ends. [Pending.Then]
// describes the goroutine and the order of calls. f is not called if the read fails. Use WithWatch for a watch that can
// be stopped.
func (b GetDataBuilder) Watching(f func(Event)) GetDataBuilder {
	b.watching = callbackWatch(f)
	return b
}

// WithWatch makes ForPath also return a watch for the next change or the deletion of the node.
func (b GetDataBuilder) WithWatch() Watched[GetDataBuilder, DataResult, []byte] {
	b.watching = watchOptions{wanted: true}
	return Watched[GetDataBuilder, DataResult, []byte]{b}
}

// WatchedBy makes the read arm a watch of the set: for the next change or the deletion of the node. A read
// that fails arms none. The result has no Watch.
func (b GetDataBuilder) WatchedBy(set *WatchSet) GetDataBuilder {
	b.watching = watchOptions{set: set}
	return b
}

// ForPath returns the node's data. The error is ErrNoNode if the node does not exist.
func (b GetDataBuilder) ForPath(ctx context.Context, path string) ([]byte, error) {
	r, err := runForeground(ctx, b.operation(path))
	return r.Data, err
}

// InBackground makes ForPath return immediately.
func (b GetDataBuilder) InBackground() Background[GetDataBuilder, DataResult] {
	return Background[GetDataBuilder, DataResult]{builder: b}
}

func (b GetDataBuilder) parts(r DataResult) ([]byte, *Watch) { return r.Data, r.Watch }

func (b GetDataBuilder) operation(path string) *operation[DataResult] {
	full, err := b.c.fullPath(path)
	x := &dataProcedure{full: full, compression: b.compression, storeStat: b.storeStat}
	o := &x.operation
	o.c, o.name, o.createsRoot, o.path, o.argumentError = b.c, "getData", true, path, err
	x.resultWatch, o.watch = b.watching.newArmer(b.c, wire.Data, full)
	o.slowToDecode, o.storesStat, o.procedure = b.c.usesCompression(b.compression), b.storeStat != nil, x
	return o
}

// dataProcedure is the procedure of a [GetDataBuilder].
type dataProcedure struct {
	operation[DataResult]
	full        string
	compression compressionChoice
	storeStat   *Stat
	resultWatch *Watch
}

func (x *dataProcedure) newRequest(*sessionEpoch) *wire.Call { return readCall(jute.OpGetData, x.full) }

func (x *dataProcedure) decodeReply(_ int64, body []byte) (r DataResult, err error) {
	var res jute.GetDataResponse
	if err := decodeRecord(body, res.Fields); err != nil {
		return r, err
	}
	data, err := x.c.decodeNodeData(x.full, res.Data, x.compression)
	if err != nil {
		return r, err
	}
	if x.storeStat != nil {
		*x.storeStat = Stat(res.Stat)
	}
	return DataResult{data, Stat(res.Stat), x.resultWatch}, nil
}

func (x *dataProcedure) recoveryAfter(error) recoveryStep[DataResult] { return nil }

// ChildrenResult is the result of GetChildren in the background.
type ChildrenResult struct {
	// Names are the names of the children, in no particular order.
	Names []string
	Stat  Stat
	// Watch is the watch of WithWatch; otherwise nil.
	Watch *Watch
}

// GetChildrenBuilder lists a node's children. It is a value: each method returns a changed copy.
type GetChildrenBuilder struct {
	c         *Client
	storeStat *Stat
	watching  watchOptions
}

// GetChildren begins to list a node's children. Corresponds to Curator's getChildren.
func (c *Client) GetChildren() GetChildrenBuilder { return GetChildrenBuilder{c: c} }

// StoringStatIn makes the operation write the node's Stat to stat when it succeeds. In the background, read
// stat only after the operation has ended.
func (b GetChildrenBuilder) StoringStatIn(stat *Stat) GetChildrenBuilder {
	b.storeStat = stat
	return b
}

// Watching makes the client call f once: when a child is created or deleted, or the node is deleted, or the session
// ends. [Pending.Then] describes the goroutine and the order of calls. f is not called if the read fails. Use WithWatch
// for a watch that can be stopped.
func (b GetChildrenBuilder) Watching(f func(Event)) GetChildrenBuilder {
	b.watching = callbackWatch(f)
	return b
}

// WithWatch makes ForPath also return a watch for the next creation or deletion of a child, or the deletion of the node.
func (b GetChildrenBuilder) WithWatch() Watched[GetChildrenBuilder, ChildrenResult, []string] {
	b.watching = watchOptions{wanted: true}
	return Watched[GetChildrenBuilder, ChildrenResult, []string]{b}
}

// WatchedBy makes the read arm a watch of the set: for the next creation or deletion of a child, or the
// deletion of the node. A read that fails arms none. The result has no Watch.
func (b GetChildrenBuilder) WatchedBy(set *WatchSet) GetChildrenBuilder {
	b.watching = watchOptions{set: set}
	return b
}

// ForPath returns the names of the children, in no particular order. The error is ErrNoNode if the node does not exist.
func (b GetChildrenBuilder) ForPath(ctx context.Context, path string) ([]string, error) {
	r, err := runForeground(ctx, b.operation(path))
	return r.Names, err
}

// InBackground makes ForPath return immediately.
func (b GetChildrenBuilder) InBackground() Background[GetChildrenBuilder, ChildrenResult] {
	return Background[GetChildrenBuilder, ChildrenResult]{builder: b}
}

func (b GetChildrenBuilder) parts(r ChildrenResult) ([]string, *Watch) { return r.Names, r.Watch }

func (b GetChildrenBuilder) operation(path string) *operation[ChildrenResult] {
	full, err := b.c.fullPath(path)
	x := &childrenProcedure{full: full, storeStat: b.storeStat}
	o := &x.operation
	o.c, o.name, o.createsRoot, o.path, o.argumentError = b.c, "getChildren", true, path, err
	x.resultWatch, o.watch = b.watching.newArmer(b.c, wire.Child, full)
	o.storesStat, o.procedure = b.storeStat != nil, x
	return o
}

// childrenProcedure is the procedure of a [GetChildrenBuilder].
type childrenProcedure struct {
	operation[ChildrenResult]
	full        string
	storeStat   *Stat
	resultWatch *Watch
}

func (x *childrenProcedure) newRequest(*sessionEpoch) *wire.Call {
	return readCall(jute.OpGetChildren2, x.full)
}

func (x *childrenProcedure) decodeReply(_ int64, body []byte) (r ChildrenResult, err error) {
	var res jute.Children2Response
	if err := decodeRecord(body, res.Fields); err != nil {
		return r, err
	}
	if x.storeStat != nil {
		*x.storeStat = Stat(res.Stat)
	}
	return ChildrenResult{res.Children, Stat(res.Stat), x.resultWatch}, nil
}

func (x *childrenProcedure) recoveryAfter(error) recoveryStep[ChildrenResult] { return nil }

// Watched is a builder of a read with a watch; WithWatch returns it. B is the builder of the read, T the type of its
// result in the background, V the type of the value that it reads. It is a value.
type Watched[B interface {
	operation(path string) *operation[T]
	parts(T) (V, *Watch)
}, T, V any] struct{ builder B }

// ForPath returns the result of the read, and the watch; neither if there is an error. CheckExists arms the watch
// whether or not the node exists.
func (b Watched[B, T, V]) ForPath(ctx context.Context, path string) (V, *Watch, error) {
	r, err := runForeground(ctx, b.builder.operation(path))
	v, w := b.builder.parts(r)
	return v, w, err
}

// InBackground makes ForPath return immediately.
func (b Watched[B, T, V]) InBackground() Background[B, T] {
	return Background[B, T]{builder: b.builder}
}

// SyncBuilder lets the connected server catch up with the leader. It is a value.
type SyncBuilder struct{ c *Client }

// Sync begins a sync. Later reads of this client reflect every write that was executed before the sync. There
// is an exception: the connected server may follow a leader that has been replaced without its knowledge. Only a write
// by this client excludes that. Corresponds to Curator's sync, which only exists in the background.
func (c *Client) Sync() SyncBuilder { return SyncBuilder{c} }

// ForPath blocks until the connected server has caught up. Today's servers ignore the path.
func (b SyncBuilder) ForPath(ctx context.Context, path string) error {
	_, err := runForeground(ctx, b.operation(path))
	return err
}

// InBackground makes ForPath return immediately. A read that is queued after the sync is executed after it.
func (b SyncBuilder) InBackground() Background[SyncBuilder, struct{}] {
	return Background[SyncBuilder, struct{}]{builder: b}
}

func (b SyncBuilder) operation(path string) *operation[struct{}] {
	full, err := b.c.fullPath(path)
	return &operation[struct{}]{
		c: b.c, name: "sync", path: path, argumentError: err,
		procedure: functionProcedure[struct{}]{decode: decodeNothing, makeRequest: func() *wire.Call {
			return newCall(jute.OpSync, &jute.PathRequest{Path: full})
		}},
	}
}
