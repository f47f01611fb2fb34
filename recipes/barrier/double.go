package barrier

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// readyName is the child that says that a barrier is open. It is part of the contract with Curator for Java.
const readyName = "ready"

// Double is a double barrier at a path: its members begin together and end together. Each Enter is a member
// of its own, also those of one process and one Double. A barrier can be used again and again, best with the
// same Double, which remembers what it knows of the other members. Safe for concurrent use. Corresponds to
// Curator's DistributedDoubleBarrier.
type Double struct {
	client *framework.Client
	path   string
	qty    int
	data   []byte
	err    error // of NewDouble: Enter returns it

	peers  peers
	closer closer
}

// Option changes what [NewDouble] makes.
type Option func(*Double) error

// WithNodeData is what the nodes of members contain: a host name, say, for people who look at them. Default:
// the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(d *Double) error { d.data = append([]byte{}, data...); return nil }
}

// NewDouble makes the double barrier at path, a directory of its own: every child but "ready" counts as a
// member. It opens when there are memberQty members; that is a threshold and not a limit, and all members
// should give the same. It sends nothing. A mistake in the arguments (a nil client, a path that is none or
// the root, a quantity below 1, an option) is reported by Enter, before anything is sent.
func NewDouble(client *framework.Client, path string, memberQty int, opts ...Option) *Double {
	d := &Double{client: client, path: path, qty: memberQty}
	if d.err = queue.Configure(client, path, d, opts); d.err == nil && memberQty < 1 {
		d.err = fmt.Errorf("%w: a double barrier for %d members; at least 1 is needed",
			framework.ErrBadArguments, memberQty)
	}
	return d
}

// Path returns the barrier's path.
func (d *Double) Path() string { return d.path }

// Enter joins the barrier and waits until it is open: until as many members as it needs have joined. A member
// that joins an open barrier is in at once.
//
// When ctx ends first, Enter returns at once and its node is taken back, so that it does not count for the
// others any more (in Curator it stays and counts); unless the barrier has opened in that very moment, when
// the others have counted on it. The error matches ctx.Err() and context.Cause(ctx). The membership does not
// end with ctx.
//
// After Leave a member waits a second before it enters again, unless all members are known to be Go clients:
// a Java member that sees the next round before it has noticed the end of the last gets stuck.
//
// Before its node is there the retry policy decides how long to try: then ErrNotConnected or
// ErrConnectionLoss. After that it waits through a lost connection. ErrSessionLost when the session ends and
// ErrNodeDeleted when somebody deletes the node, since the barrier may then have opened and closed without
// this member: enter again if that makes sense. Other errors: ErrNoAuth; ErrInvalidPath; ErrBadArguments;
// ErrClosed; framework.ErrTimeoutTooShort. Whatever the error, the node is taken back.
func (d *Double) Enter(ctx context.Context) (*Member, error) {
	m, err := d.enter(ctx)
	return m, wrap(d.path, "enter", err)
}

// Member is a caller that is inside a double barrier. Safe for concurrent use: any goroutine may leave.
type Member struct {
	d       *Double
	session *framework.Session
	view    *framework.Client // pinned to session
	name    string            // the node's, a new one for each Enter
	hold    *framework.Hold
	left    atomic.Bool
}

// Context is the one to work under: it ends when the membership is lost, or with Leave, and context.Cause
// says why: ErrSessionLost, ErrNodeDeleted, ErrReleased, or framework.ErrClosed. When the session is lost it
// ends before the servers can tell the others that this member is gone. It has the values of the context
// given to Enter, but neither its end nor its deadline. Its Err also looks at the clock; that of contexts
// derived from it does not.
func (m *Member) Context() context.Context { return m.hold.Context() }

// Path returns that of the member's node.
func (m *Member) Path() string { return m.d.child(m.name) }

func (m *Member) lost() error {
	if m.hold.Valid() {
		return nil
	}
	return context.Cause(m.hold.Context())
}

func (d *Double) ready() string { return d.child(readyName) }

func (d *Double) child(name string) string { return zkpath.Join(d.path, name) }

// list reads the directory with client, however long the connection is away. A missing one is empty.
func (d *Double) list(ctx context.Context, client *framework.Client) (names []string, err error) {
	err = queue.ThroughOutages(ctx, client, func(ctx context.Context) error {
		names, err = client.GetChildren().ForPath(ctx, d.path)
		return queue.Unless(err, framework.ErrNoNode)
	})
	return names, err
}

// split takes "ready" out of the children, in place: the rest, sorted, are members, for Curator and for us,
// of whatever client.
func split(names []string) (open bool, members []string) {
	members = slices.DeleteFunc(names, func(name string) bool { return name == readyName })
	slices.Sort(members)
	return len(members) < len(names), members
}

// reentryDelay is how long a member that may share the barrier with Java stays away after it has left. A Java
// member that wakes up to find the round over lists the directory. If it sees two members that have come back
// already, it takes them for members that have not left yet, and waits for them, and they for it.
const reentryDelay = time.Second

// peers is what a Double knows about those it shares the barrier with.
type peers struct {
	mu      sync.Mutex
	foreign bool      // there was one that is not ours; guarded by mu
	known   bool      // all have been seen at once, and were ours; guarded by mu
	left    time.Time // when a member has last left; guarded by mu
}

func (p *peers) seen(members []string, qty int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isForeign := func(name string) bool { return !zkpath.IsOurGUID(name) }
	p.foreign = p.foreign || slices.ContainsFunc(members, isForeign)
	p.known = p.known || len(members) >= qty
}

// unknown says that it is not known yet whether some are Java's.
func (p *peers) unknown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.known && !p.foreign
}

func (p *peers) leaving() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = time.Now()
}

// awaitReentry waits until reentryDelay has passed, unless all members are known to be ours.
func (p *peers) awaitReentry(ctx context.Context, client *framework.Client) error {
	p.mu.Lock()
	wait := time.Until(p.left.Add(reentryDelay))
	if p.known && !p.foreign {
		wait = 0
	}
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return queue.Sleep(ctx, client, wait)
}
