package node

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Keeper maintains a node, from [NewKeeper] until [Keeper.Close]. Safe for concurrent use.
//
// Corresponds to Curator's PersistentNode.
type Keeper struct {
	client   *framework.Client
	path     string                 // as it was given
	inbox    *flow.Queue[eventKind] // newDataSet and closeRequested
	done     chan struct{}          // closed when its goroutine has ended; nil in the zero value
	closeErr error                  // why the node may be left; set before done is closed

	mu              sync.Mutex
	changed         flow.Signal // a field below has changed
	wantedContent   nodeContent // of the last SetData
	acceptedContent nodeContent // the last data that the node has had; sequence is 0 if there were none
	refusedContent  nodeContent // the sequence of the last data that were refused, without the data
	refusedErr      error       // why they were refused
	status          Status
	hasData         bool  // the node has wantedContent
	refusal         error // the last lasting refusal, if there is one
	finished        bool  // the goroutine has ended, or ends now

	childWritten bool  // the child of a node with a TTL was written; true without a TTL
	childErr     error // why it cannot be written

	followers map[*flow.Queue[Status]]struct{}
}

// nodeContent is data for the node, and their sequence number.
type nodeContent struct {
	data     []byte
	sequence int64
}

// NewKeeper starts a keeper of the node at path, with these data, in the background. Nil data are the client's
// default data. Missing parents are made as containers. Close it when the node is not wanted any more; it also ends
// with its client (and with its session, if client is the view of one), whose ephemeral nodes then go.
//
// Errors, each before anything is started: framework.ErrNoClient, framework.ErrInvalidPath (also for "/"),
// framework.ErrInvalidOption.
func NewKeeper(client *framework.Client, path string, data []byte, opts ...Option) (*Keeper, error) {
	cfg := &config{client: client, mode: framework.Ephemeral}
	err := checkPath(client, path)
	if err == nil {
		err = line.Configure(client, path, cfg, opts)
	}
	if err == nil {
		err = cfg.checkOptions()
	}
	if err != nil {
		return nil, line.WrapError("node", path, "new keeper", err)
	}
	k := &Keeper{
		client: client, path: path, inbox: flow.NewQueue[eventKind](), done: make(chan struct{}),
		wantedContent: nodeContent{bytes.Clone(data), 1}, childWritten: cfg.ttl == 0,
		followers: map[*flow.Queue[Status]]struct{}{},
	}
	w := newWorker(k, cfg)
	k.status.Path = w.path
	go w.run()
	return k, nil
}

// checkPath refuses a path at which no node can be created. In a namespace, all recipes share "/".
func checkPath(client *framework.Client, path string) error {
	err := line.CheckArguments(client, path)
	if err == nil && path == "/" {
		err = fmt.Errorf(`%w "/": give the path of a node below the namespace`, framework.ErrInvalidPath)
	}
	return err
}

// Path returns the path of the node, empty while the server has not yet given a sequential node its number.
// Corresponds to PersistentNode.getActualPath.
func (k *Keeper) Path() string { return k.Status().Path }

// Data returns the data that the node has, or will have: the data of the last [Keeper.SetData].
func (k *Keeper) Data() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.wantedContent.data)
}

// SetData sets the node's data, now and whenever it is recreated, and waits until the node has them. It waits through
// lost connections and lost sessions, and while the node is missing. Nil data are the client's default data.
//
// When ctx ends, the keeper still sets the data. If the server refuses them, or they are too large
// (framework.ErrNoAuth, framework.ErrTooLarge, …), the keeper reverts to the data that the node has, if it was ever
// made. A call that is overtaken by a later one returns with the later one's result. When the keeper has ended, the
// error is [ErrClosed] or the reason.
//
// Other clients may set the node's data as well. The keeper leaves their data until its next SetData, or until it has
// to recreate the node. Corresponds to PersistentNode.setData, which however overwrites the data of other clients
// after each reconnect.
func (k *Keeper) SetData(ctx context.Context, data []byte) error {
	if err := k.checkReady(ctx); err != nil {
		return k.wrapError("set data", err)
	}
	k.mu.Lock()
	n := k.wantedContent.sequence + 1
	k.wantedContent = nodeContent{bytes.Clone(data), n}
	k.mu.Unlock()
	k.inbox.Put(newDataSet)
	return k.wrapError("set data", k.awaitStatus(ctx, func() (bool, error) {
		if k.refusedContent.sequence >= n {
			return false, k.refusedErr
		}
		return k.acceptedContent.sequence >= n, nil
	}))
}

// Close deletes the node, for certain, and waits until the server has confirmed that the node is gone, or the keeper
// has seen that it is. If ctx ends before, Close returns its error, and the keeper continues in the background,
// through lost connections and sessions, until it is done; another Close waits for the same. If ctx has no deadline, Close
// sets one, a session timeout away; then the error matches framework.ErrOutcomeUnknown, too. A node at the path that
// another client made stays, and so does a persistent one that the keeper was not allowed to write. With [WithTTL] Close
// waits only for the keeper's end.
//
// Other errors: if the server refuses to delete the node, or to report its owner (framework.ErrNoAuth,
// framework.ErrNotEmpty), after which an ephemeral node stays until its session ends; framework.ErrClosed if the
// client was closed before: then the ephemeral nodes go with its session.
func (k *Keeper) Close(ctx context.Context) error {
	if ctx == nil {
		return k.wrapError("close", framework.ErrNilContext)
	}
	k.inbox.Put(closeRequested)
	ctx, cancel := withCloseDeadline(ctx, k.client)
	defer cancel()
	select {
	case <-k.done:
	case <-ctx.Done():
		select {
		case <-k.done:
		default:
			return k.wrapError("close", k.client.WaitError(ctx, nil))
		}
	}
	return k.wrapError("close", k.closeErr)
}

// withCloseDeadline returns ctx with a deadline, if it has none.
func withCloseDeadline(ctx context.Context, client *framework.Client) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, client.Safety().SessionTimeout, errUnconfirmed)
}

var errUnconfirmed = fmt.Errorf("no server has confirmed for a session timeout that the node is deleted, and the keeper "+
	"continues in the background: %w", framework.ErrOutcomeUnknown)

// CloseInBackground is Close for a caller that does not wait: it returns immediately, and the keeper deletes the node in
// the background, as after a Close whose ctx ends. then, if given, gets the error that Close would return, on the
// client's goroutine for callbacks (see [framework.Pending.Then]). Without it only a refusal is logged.
func (k *Keeper) CloseInBackground(then ...func(err error)) {
	k.inbox.Put(closeRequested)
	report := &line.Callback{Path: k.path, Then: then, Wrap: func(err error) error { return k.wrapError("close", err) }}
	k.client.Spawn(func(context.Context) {
		<-k.done
		report.CallLater(k.client, k.closeErr)
	})
}

// Done returns a channel that is closed when the keeper has ended: after Close, or with the client.
func (k *Keeper) Done() <-chan struct{} { return k.done }

func (k *Keeper) checkReady(ctx context.Context) error {
	return line.CheckCall(ctx, k.client, nil)
}

func (k *Keeper) wrapError(verb string, err error) error {
	return line.WrapError("node", k.path, verb, err)
}

func (k *Keeper) loadWanted() nodeContent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wantedContent
}

// recordWritten records that the node has had the data sent. It reports whether they are still the wanted ones.
func (k *Keeper) recordWritten(sent nodeContent) (latest bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acceptedContent = sent
	k.changed.Fire()
	return k.wantedContent.sequence == sent.sequence
}

// recordRefused records that the data sent were refused, and reverts to the last data that the node has had, if there
// are any. It reports whether those are now the wanted ones.
func (k *Keeper) recordRefused(sent nodeContent, why error) (latest bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed.Fire()
	if sent.sequence <= k.acceptedContent.sequence {
		return false // nothing was sent, or the node has had these data, or later ones, before
	}
	k.refusedContent, k.refusedErr = nodeContent{sequence: sent.sequence}, why
	if k.acceptedContent.sequence == 0 || k.wantedContent.sequence != sent.sequence {
		return false
	}
	k.wantedContent = nodeContent{k.acceptedContent.data, sent.sequence + 1}
	k.acceptedContent = k.wantedContent
	return true
}

// protectedPath returns the path with the protection prefix in the node's name.
func protectedPath(path string) string {
	return zkpath.Join(zkpath.Parent(path), zkpath.Protect(zkpath.NewGUID(), zkpath.Base(path)))
}
