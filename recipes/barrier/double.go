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
	"github.com/go-curator/curator/recipes/internal/line"
)

// readyName is the name of the child that exists while a barrier is open. It is part of the contract with
// Curator for Java.
const readyName = "ready"

// Double is a double barrier at a path: its members begin together and end together. Each Enter makes a new member,
// also two calls on the same Double. A barrier can be used for several rounds. Use the same Double for all of them:
// it remembers whether there are Java members. Safe for concurrent use. Corresponds to Curator's
// DistributedDoubleBarrier.
type Double struct {
	client *framework.Client
	path   string
	qty    int
	data   []byte
	err    error // the mistake in NewDouble's arguments: Enter returns it

	peers  javaMembers
	closer backgroundCloser // closes the barrier for members that gave up
}

// Option configures [NewDouble]. If one is given several times the last counts.
type Option func(*Double) error

// WithNodeData sets the data of the members' nodes: a host name, say, for people who look at them. Default:
// the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(d *Double) error { d.data = append([]byte{}, data...); return nil }
}

// NewDouble makes the double barrier at path. The node at path is for this barrier only: every child but
// "ready" counts as a member. The barrier opens when there are memberQty members. That is a threshold, not a
// limit, and all members should pass the same number. NewDouble sends nothing. If an argument is wrong (a nil
// client, an invalid path or the root, a quantity below 1, a wrong option), Enter returns that error, before
// it sends anything.
func NewDouble(client *framework.Client, path string, memberQty int, opts ...Option) *Double {
	d := &Double{client: client, path: path, qty: memberQty}
	if d.err = line.Configure(client, path, d, opts); d.err == nil && memberQty < 1 {
		d.err = fmt.Errorf("%w: a double barrier for %d members; at least 1 is needed",
			framework.ErrBadArguments, memberQty)
	}
	return d
}

// Path returns the barrier's path.
func (d *Double) Path() string { return d.path }

// Enter joins the barrier and waits until it opens, when enough members have joined. A member that joins an open
// barrier is in immediately.
//
// When ctx ends first, Enter returns immediately, and the client deletes the node in the background, so that it does
// not count as a member any more. (In Curator it stays and counts.) The error matches ctx.Err() and
// context.Cause(ctx). If the barrier opens at the same moment, Enter returns the member instead, since the others
// have counted it. ctx limits only the wait: the membership outlives it.
//
// Enter waits until a second after the last Leave of this Double, unless all members are known to be Go clients. The
// reason: a Java member that sees nodes of the next round before the end of the last one waits for ever.
//
// Until Enter has created its node, the retry policy limits the attempts; the error after the last is ErrNotConnected
// or ErrConnectionLoss. From then on it waits through a lost connection. If the session ends, the error is
// ErrSessionLost; if another client deletes the node, ErrNodeDeleted. Enter does not continue then, since the barrier
// may have opened and closed without this member: call Enter again if that makes sense. Other errors: ErrNoAuth;
// ErrInvalidPath; ErrBadArguments; ErrClosed; framework.ErrTimeoutTooShort. On every error the client deletes the
// node.
func (d *Double) Enter(ctx context.Context) (*Member, error) {
	m, err := d.enter(ctx)
	return m, wrapError(d.path, "enter", err)
}

// Member is a member inside a double barrier. Safe for concurrent use: any goroutine may leave.
type Member struct {
	d       *Double
	session *framework.Session
	view    *framework.Client // pinned to session
	name    string            // of the node: a new name for each Enter
	hold    *framework.Hold
	hasLeft atomic.Bool

	loggedMember string // the last node that Leave has logged as not ephemeral
}

// Context returns the context for the members' work. It ends when the membership is lost, or with Leave, and
// context.Cause returns the reason: ErrSessionLost, ErrNodeDeleted, ErrReleased, or framework.ErrClosed. When the
// session is lost, the context ends before the servers can report to the others that this member is gone. It has the
// values of the context given to Enter, but neither its end nor its deadline. Its Err also checks the clock; the Err
// of a derived context does not.
func (m *Member) Context() context.Context { return m.hold.Context() }

// Path returns the path of the member's node.
func (m *Member) Path() string { return m.d.childPath(m.name) }

func (m *Member) lossCause() error {
	if m.hold.Valid() {
		return nil
	}
	return context.Cause(m.hold.Context())
}

func (d *Double) readyPath() string { return d.childPath(readyName) }

func (d *Double) childPath(name string) string { return zkpath.Join(d.path, name) }

// listChildren lists the children of the barrier with client, however long the connection is lost. If the barrier's
// node is missing, the list is empty. dir is that node's Stat.
func (d *Double) listChildren(
	ctx context.Context, client *framework.Client,
) (names []string, dir framework.Stat, err error) {
	err = line.RetryThrough(ctx, client, line.Outages, func(ctx context.Context) error {
		names, err = client.GetChildren().StoringStatIn(&dir).ForPath(ctx, d.path)
		return line.IgnoreError(err, framework.ErrNoNode)
	})
	return names, dir, err
}

// splitReady removes "ready" from the children, in place, and sorts the others, which are the members: as in Curator, all
// of them, whoever created them.
func splitReady(names []string) (open bool, members []string) {
	members = slices.DeleteFunc(names, func(name string) bool { return name == readyName })
	slices.Sort(members)
	return len(members) < len(names), members
}

// reentryDelay is the time that Enter waits after a Leave if the barrier may have Java members. Without it:
//  1. A Java member wakes up after the end of a round and lists the children.
//  2. It sees two members that have entered again already, takes them for members that have not left yet, and waits
//     for them.
//  3. They wait for it in turn.
const reentryDelay = time.Second

// javaMembers records whether a Double's barrier has Java members.
type javaMembers struct {
	mu        sync.Mutex
	sawJava   bool      // a Java member was seen; guarded by mu
	sawAll    bool      // a list has shown enough members to open the barrier; guarded by mu
	lastLeave time.Time // when a member of this Double last left; guarded by mu
}

func (p *javaMembers) recordMembers(members []string, qty int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isJava := func(name string) bool { return !zkpath.IsOurGUID(name) }
	p.sawJava = p.sawJava || slices.ContainsFunc(members, isJava)
	p.sawAll = p.sawAll || len(members) >= qty
}

// isUndecided reports whether it is unknown if there are Java members.
func (p *javaMembers) isUndecided() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.sawAll && !p.sawJava
}

func (p *javaMembers) recordLeave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastLeave = time.Now()
}

// awaitReentry waits until reentryDelay has passed since the last Leave, unless it is certain that there are no Java members.
func (p *javaMembers) awaitReentry(ctx context.Context, client *framework.Client) error {
	p.mu.Lock()
	wait := time.Until(p.lastLeave.Add(reentryDelay))
	if p.sawAll && !p.sawJava {
		wait = 0
	}
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return line.Sleep(ctx, client, wait)
}
