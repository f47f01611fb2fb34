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
	client *framework.Client
	path   string                 // as it was given
	inbox  *flow.Queue[eventKind] // asked and closing
	done   chan struct{}          // closed when its goroutine has ended; nil in the zero value
	left   error                  // why the node may be left; set before done is closed

	mu      sync.Mutex
	changed flow.Signal // a field below has changed
	want    content
	good    content // the last data that the node has had; n is 0 if there were none
	lapsed  content // the last data that were refused, without the data
	lapse   error   // and why
	status  Status
	written bool  // the node has the data
	refusal error // the last lasting refusal, if there is one
	over    bool  // the goroutine has ended, or ends now

	touched     bool  // the child of a node with a TTL was written; true without a TTL
	untouchable error // why it cannot be written

	followers map[*flow.Queue[Status]]struct{}
}

// content is data for the node, and their sequence number.
type content struct {
	data []byte
	n    int64
}

// NewKeeper starts a keeper of the node at path, with these data, in the background. Nil data are the client's
// default data. Missing parents are made as containers. Close it when the node is not wanted any more; it also ends
// with its client (and with its session, if client is the view of one), whose ephemeral nodes then go.
//
// Errors, each before anything is started: framework.ErrNoClient, framework.ErrInvalidPath (also for "/"),
// framework.ErrInvalidOption.
func NewKeeper(client *framework.Client, path string, data []byte, opts ...Option) (*Keeper, error) {
	cfg := &config{client: client, mode: framework.Ephemeral}
	err := check(client, path)
	if err == nil {
		err = line.Configure(client, path, cfg, opts)
	}
	if err == nil {
		err = cfg.check()
	}
	if err != nil {
		return nil, line.Wrap("node", path, "new keeper", err)
	}
	k := &Keeper{
		client: client, path: path, inbox: flow.NewQueue[eventKind](), done: make(chan struct{}),
		want: content{bytes.Clone(data), 1}, touched: cfg.ttl == 0, followers: map[*flow.Queue[Status]]struct{}{},
	}
	w := newWorker(k, cfg)
	k.status.Path = w.path
	go w.run()
	return k, nil
}

// check refuses a path at which no node can be created. In a namespace, all recipes share "/".
func check(client *framework.Client, path string) error {
	err := line.Check(client, path)
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
	return bytes.Clone(k.want.data)
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
	if err := k.ready(ctx); err != nil {
		return k.wrap("set data", err)
	}
	k.mu.Lock()
	n := k.want.n + 1
	k.want = content{bytes.Clone(data), n}
	k.mu.Unlock()
	k.inbox.Put(asked)
	return k.wrap("set data", k.await(ctx, func() (bool, error) {
		if k.lapsed.n >= n {
			return false, k.lapse
		}
		return k.good.n >= n, nil
	}))
}

// Close deletes the node, for certain, and waits until the server has confirmed that the node is gone, or the keeper
// has seen that it is. If ctx ends before, Close returns its error, and the keeper continues in the background,
// through lost connections and sessions, until it is done; another Close waits for the same. A node at the path that
// another client made stays, and so does a persistent one that the keeper was not allowed to write. With [WithTTL]
// Close waits only for the keeper's end.
//
// Other errors: if the server refuses to delete the node, or to report its owner (framework.ErrNoAuth,
// framework.ErrNotEmpty), after which an ephemeral node stays until its session ends; framework.ErrClosed if the
// client was closed before: then the ephemeral nodes go with its session.
func (k *Keeper) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return k.wrap("close", framework.ErrNilContext)
	case k == nil || k.done == nil:
		return k.wrap("close", framework.ErrNoClient)
	}
	k.inbox.Put(closing)
	select {
	case <-k.done:
		return k.wrap("close", k.left)
	case <-ctx.Done():
		return k.wrap("close", k.client.Left(ctx, nil))
	}
}

// Done returns a channel that is closed when the keeper has ended: after Close, or with the client.
func (k *Keeper) Done() <-chan struct{} { return k.done }

func (k *Keeper) ready(ctx context.Context) error {
	if k == nil || k.done == nil {
		return framework.ErrNoClient
	}
	return line.Ready(ctx, k.client, nil)
}

func (k *Keeper) wrap(verb string, err error) error {
	if k == nil {
		return line.Wrap("node", "", verb, err)
	}
	return line.Wrap("node", k.path, verb, err)
}

// wanted returns the data that the node should have.
func (k *Keeper) wanted() content {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.want
}

// wrote records that the node has had the data sent. It reports whether they are still the wanted ones.
func (k *Keeper) wrote(sent content) (latest bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.good = sent
	k.changed.Fire()
	return k.want.n == sent.n
}

// refused records that the data sent were refused, and reverts to the last data that the node has had, if there are
// any. It reports whether those are now the wanted ones.
func (k *Keeper) refused(sent content, why error) (latest bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed.Fire()
	if sent.n <= k.good.n {
		return false // the node has had these data, or later ones, before
	}
	k.lapsed, k.lapse = content{n: sent.n}, why
	if k.good.n == 0 || k.want.n != sent.n {
		return false
	}
	k.want = content{k.good.data, sent.n + 1}
	k.good = k.want
	return true
}

// protectedPath is the path of a node with the protection prefix.
func protectedPath(path string) string {
	return zkpath.Join(zkpath.Parent(path), zkpath.Protect(zkpath.NewGUID(), zkpath.Base(path)))
}
