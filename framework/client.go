package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/retry"
)

// Client is a ZooKeeper client that outlives connections and sessions. Make one client per process with [New]
// and share it. Safe for concurrent use. Views of it ([Client.UsingNamespace], [Session.Client]) share
// everything with it, Close included. Corresponds to Curator's CuratorFramework.
type Client struct {
	core *clientCore
	view clientView

	cached *viewCache // nil in the zero value
}

// viewCache has the values that methods of a view made at their first call. Client has a pointer to it, because users
// may copy a Client, and atomic values must not be copied.
type viewCache struct {
	session atomic.Pointer[Session]     // of Client.Session
	recipes atomic.Pointer[Client]      // of Client.ForRecipes
	ended   atomic.Pointer[func() bool] // of Session.Ended
}

func newClient(c *clientCore, v clientView) *Client {
	return &Client{core: c, view: v, cached: &viewCache{}}
}

// clientView is the part of the tree that a *Client sees, and the epoch of its operations.
type clientView struct {
	chroot     string        // of the connect string: "" or "/app"; the client neither creates nor deletes it
	namespace  string        // "" or "/ns"
	prefix     string        // chroot and namespace: the prefix of every path
	fault      error         // set if the namespace is invalid: every operation fails with this error
	epoch      *sessionEpoch // of the view of a Session; nil: operations run in the current epoch
	retry      retry.Policy  // nil: the client's
	forRecipes bool          // callbacks run on the goroutine for recipes, see ForRecipes
}

// newClientView returns the first view of a client. chroot and namespace may be empty.
func newClientView(chroot, namespace string) (clientView, error) {
	v := clientView{}
	if chroot = strings.TrimSuffix(chroot, "/"); chroot != "" {
		if err := zkpath.Validate(chroot, false); err != nil {
			return v, invalidPathError(err)
		}
		v.chroot = chroot
	}
	v = v.withNamespace(namespace)
	return v, v.fault
}

// withNamespace returns the view with another namespace.
func (v clientView) withNamespace(namespace string) clientView {
	v.namespace, v.prefix, v.fault = "", v.chroot, nil
	if namespace == "" {
		return v
	}
	if strings.HasPrefix(namespace, "/") {
		v.fault = fmt.Errorf("%w: the namespace %q begins with a slash; write it without", ErrInvalidPath,
			shortenText(namespace))
		return v
	}
	if err := zkpath.Validate("/"+namespace, false); err != nil {
		v.fault = fmt.Errorf("namespace: %w", invalidPathError(err))
		return v
	}
	v.namespace = "/" + namespace
	v.prefix += v.namespace
	return v
}

// isZeroValue reports whether c is a nil pointer or the zero value.
func (c *Client) isZeroValue() bool { return c == nil || c.core == nil }

// Format prints a fixed text, whatever the verb: fmt would read fields that other goroutines write.
func (Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "{ZooKeeper client}") }

// clientCore is the part of a client that all its views share.
type clientCore struct {
	clientBase
	manager     *sessionManager
	ops         *operationResources
	closeResult struct {
		begun atomic.Bool
		done  chan struct{} // closed when err is set
		err   error
	}
	operationRetry []retry.Option // of the operations, which decide themselves after which errors to retry
	callerRetry    []retry.Option // of Client.Retry
}

// operationResources has the parts that the operations of all views of a client share: the goroutines of the
// callbacks, the clean-ups, and the count of the goroutines that work for operations. The core closes it after its
// last session.
type operationResources struct {
	log             *slog.Logger // writes to logLines
	cleanupLog      *slog.Logger // has its own logLines, and so does not keep the client alive: see CleanupLogger
	workers         workerGroup
	userExecutors   backgroundExecutors // for the user's operations
	recipeExecutors backgroundExecutors // for operations of recipes and caches, which never wait for user operations
	logLines        logLines
	cleanups        cleanupQueue
	backgroundCount atomic.Int64 // operations in the background that count for the limit
}

// newOperationResources is called by New before the first session.
func newOperationResources(core *clientBase, handler slog.Handler) *operationResources {
	o, detached := &operationResources{}, &logLines{queue: serialExecutor{spawn: func(f func()) { go f() }}}
	o.log, o.cleanupLog = o.logLines.newLogger(handler), detached.newLogger(handler)
	o.workers.ctx, o.workers.cancel = context.WithCancel(context.Background())
	for _, s := range []*serialExecutor{
		&o.userExecutors.results, &o.userExecutors.callbacks,
		&o.recipeExecutors.results, &o.recipeExecutors.callbacks, &o.logLines.queue,
	} {
		s.spawn = o.workers.spawn
	}
	q := &o.cleanups
	q.core, q.workers = core, &o.workers
	q.pending = map[nodeCleanup]struct{}{}
	q.delayedJobs = map[*cleanupJob]*time.Timer{}
	return o
}

// UsingRetry returns a view of the client whose operations are retried by policy instead of the policy of [WithRetry]:
// for a call that must return soon, or a call that may take long. Recipes made with the view use the policy, too.
// retry.RetryNTimes{} turns retries off; nil is the client's own policy. The view shares everything with the client and
// need not be closed.
//
//	data, err := client.UsingRetry(retry.RetryNTimes{}).GetData().ForPath(ctx, path)
func (c *Client) UsingRetry(policy retry.Policy) *Client {
	if c.isZeroValue() {
		return &Client{}
	}
	v := c.view
	v.retry = policy
	return newClient(c.core, v)
}

// retryPolicy returns the retry policy of the view.
func (c *Client) retryPolicy() retry.Policy {
	if c.view.retry != nil {
		return c.view.retry
	}
	return c.core.cfg.retry
}

// retryReady returns a channel that ends the wait before the first retry: it is closed when there is a connection. For
// an error that is not about a missing connection it returns nil, and the wait is the policy's.
func (c *clientCore) retryReady(err error) <-chan struct{} {
	if !errors.Is(err, ErrSessionLost) && !errors.Is(err, ErrConnectionLoss) &&
		!errors.Is(err, ErrNotConnected) {
		return nil
	}
	connected := c.nextConnection() // before the check, so that no connection is missed in between
	if c.latestEpoch().wire.Connected() {
		return closedChannel
	}
	return connected
}

// Retry is [retry.Do] with the policy of [WithRetry] or [Client.UsingRetry], for several operations that are
// repeated together. It differs from retry.Do in three ways:
//
//   - By default it repeats op after errors that are [Retryable].
//   - After the loss of a connection, the wait before the first retry ends early: with the next connection.
//   - When the client closes, a wait ends, and op is called once more, to return ErrClosed.
//
// It returns ErrNoClient, ErrNilContext, ErrBadArguments (op is nil), or as retry.Do does. For authors of recipes.
func (c *Client) Retry(ctx context.Context, op func(ctx context.Context) error, opts ...retry.Option) error {
	switch {
	case c.isZeroValue():
		return ErrNoClient
	case ctx == nil:
		return ErrNilContext
	case op == nil:
		return badArguments("the function given to Retry is nil")
	}
	return retry.Do(ctx, c.retryPolicy(), op, append(slices.Clip(c.core.callerRetry), opts...)...)
}

// ForRecipes returns a view whose callbacks ([Pending.Then] and Watching) run on another goroutine than the user's
// callbacks: one after the other, in the order in which replies and events arrive. All recipes and caches of the client
// share that goroutine, so their callbacks must neither block nor call a user function. [WatchBacklog] does not apply
// to the view's persistent watches: callbacks that never block cause no backlog. For authors of recipes.
func (c *Client) ForRecipes() *Client {
	if c.isZeroValue() {
		return &Client{}
	}
	if made := c.cached.recipes.Load(); made != nil {
		return made
	}
	v := c.view
	v.forRecipes = true
	made := newClient(c.core, v)
	c.cached.recipes.Store(made)
	return made
}

// executors returns the goroutines that handle the results of the view's operations.
func (c *Client) executors() *backgroundExecutors {
	switch {
	case c.isZeroValue():
		return &backgroundExecutors{callbacks: serialExecutor{spawn: func(f func()) { go f() }}}
	case c.view.forRecipes:
		return &c.core.ops.recipeExecutors
	}
	return &c.core.ops.userExecutors
}

// UsingNamespace returns a view of the client in which every path is below the node named ns: all paths, given,
// returned and in events, are relative to that node. ns may have several levels ("team/app"). "" returns the view
// without a namespace; the chroot of the connect string stays. ns replaces the receiver's namespace and does not nest
// below it.
// The view shares everything with the client and need not be closed. An invalid ns makes every operation of the view
// fail with ErrInvalidPath.
//
// The namespace's root node is created, as a container, when an operation first fails because the root is
// missing. ([Client.Ensure] creates it as a persistent node.) Corresponds to Curator's usingNamespace.
func (c *Client) UsingNamespace(ns string) *Client {
	if c.isZeroValue() {
		return &Client{}
	}
	return newClient(c.core, c.view.withNamespace(ns))
}

// Namespace returns the namespace of this view, without a leading "/"; "" if there is none.
func (c *Client) Namespace() string {
	if c.isZeroValue() {
		return ""
	}
	return strings.TrimPrefix(c.view.namespace, "/")
}

// fullPath validates a caller's path and returns the path at the server: with chroot and namespace.
func (c *Client) fullPath(path string) (string, error) { return c.fullPathOf(path, false) }

// fullPathOf is fullPath, but the path of a sequential node may end with "/".
func (c *Client) fullPathOf(path string, sequential bool) (string, error) {
	if c.isZeroValue() {
		return "", ErrNoClient
	}
	v := &c.view
	if v.fault != nil {
		return "", v.fault
	}
	if err := zkpath.Validate(path, sequential); err != nil {
		return "", invalidPathError(err)
	}
	if path == "/" && !sequential && v.prefix != "" {
		return v.prefix, nil
	}
	return v.prefix + path, nil
}

// userPath is the reverse of fullPath. A path that is not below the view's root is returned as it is.
func (c *Client) userPath(full string) string {
	if rest, ok := strings.CutPrefix(full, c.view.prefix); ok {
		switch {
		case rest == "":
			return "/"
		case rest[0] == '/':
			return rest
		}
	}
	return full
}

// ErrNoChroot means that the chroot, the path after the servers in the connect string, does not exist. It matches
// ErrNoNode, too. A client never creates its chroot: with a misspelt chroot, two programs that mean to share a tree
// would silently use two. Create the chroot once, with a client without a chroot, by hand, or in the deployment.
var ErrNoChroot = newSentinel("the chroot of the connect string does not exist", ErrNoNode, zk.ErrNoNode)

func (c *Client) noChrootError() error {
	return fmt.Errorf("%w: create %s, or correct the connect string", ErrNoChroot, c.view.chroot)
}

// addChrootHint adds the chroot to the text of an ErrNoNode, in case the chroot is wrong. missing is the full path of
// the missing node, or "" if it is not known. If the chroot itself is missing, the error becomes ErrNoChroot.
func (c *Client) addChrootHint(err error, missing string) error {
	_, complete := err.(*OpError) // of an operation that is a step of this one, and has added the hint
	switch {
	case complete || c.isZeroValue() || c.view.chroot == "" || !errors.Is(err, ErrNoNode) || errors.Is(err, ErrNoChroot):
		return err
	case missing == c.view.chroot:
		return c.noChrootError()
	}
	return fmt.Errorf("%w (in the chroot %s)", err, c.view.chroot)
}

// addChrootHintAt is addChrootHint for an operation on path that needs only the node itself.
func (c *Client) addChrootHintAt(err error, path string) error {
	missing := ""
	if path == "/" && !c.isZeroValue() {
		missing = c.view.prefix
	}
	return c.addChrootHint(err, missing)
}

// viewEpoch returns the view's epoch or, without one, the current epoch; the last epoch after Close.
func (c *Client) viewEpoch() *sessionEpoch {
	if e := c.view.epoch; e != nil {
		return e
	}
	return c.core.latestEpoch()
}

// operationEpoch returns the epoch in which an operation of this view runs that begins now.
func (c *Client) operationEpoch() (*sessionEpoch, error) {
	if c.isZeroValue() {
		return nil, ErrNoClient
	}
	now, e := c.core.currentEpoch(), c.view.epoch
	switch {
	case now == nil: // checked first: after Close the sessions have ended, too, but the error is ErrClosed
		return nil, ErrClosed
	case e == nil:
		return now, nil
	case e.ctx.Err() != nil:
		return nil, e.endCause()
	}
	return e, nil
}
