package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
	"github.com/go-curator/curator/retry"
)

// readyName is the child that says that a barrier is open. It is part of the contract with Curator for Java.
const readyName = "ready"

// Double is a double barrier at a path: its members begin together and end together. Each Enter is a member of its own, also those of one
// process and one Double. A barrier can be used again and again, best with the same Double: it remembers whom it has met. Safe for
// concurrent use.
//
// Corresponds to Curator's DistributedDoubleBarrier.
type Double struct {
	client *framework.Client
	path   string
	qty    int
	data   []byte
	err    error // of NewDouble: every method returns it

	company company
	shutter shutter
}

// Option changes what [NewDouble] makes.
type Option func(*Double) error

// WithNodeData is what the nodes of members contain: a host name, say, for people who look at them. Default: the client's default data
// ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(d *Double) error {
		d.data = append([]byte{}, data...)
		return nil
	}
}

// NewDouble makes the double barrier at path, which is a directory of its own: every child but "ready" counts as a member. It opens when
// there are memberQty members; that is a threshold and not a limit, and all members should give the same. It sends nothing. A mistake in
// the arguments (a nil client, a path that cannot be one or is the root, a quantity below 1, an option) is reported by Enter, before anything is sent.
func NewDouble(client *framework.Client, path string, memberQty int, opts ...Option) *Double {
	d := &Double{client: client, path: path, qty: memberQty}
	if d.err = queue.Configure(client, path, d, opts); d.err == nil && memberQty < 1 {
		d.err = fmt.Errorf("%w: a barrier for %d members; give 1 or more", framework.ErrBadArguments, memberQty)
	}
	return d
}

// Path returns the barrier's path.
func (d *Double) Path() string { return d.path }

// Enter joins the barrier and waits until it is open: until as many members as it needs have joined. Who joins an open barrier is in at once.
//
// When ctx ends first, Enter returns at once and its node is taken back, so that it does not count for the others any more (in Curator it
// stays and counts); unless the barrier has opened in that very moment, when the others have counted on it. The error matches ctx.Err() and
// context.Cause(ctx). The membership does not end with ctx.
//
// Who has just left, and shares the barrier with members with Curator for Java (or does not know yet that it does not), first waits until a
// second has passed since Leave: a Java member that sees the next round before it has noticed the end of the last gets stuck.
//
// A lost connection is sat out once the node is there; before that the retry policy decides (ErrNotConnected, ErrConnectionLoss). Other errors:
// ErrSessionLost when the session ends and ErrNodeDeleted when somebody deletes the node, since the barrier may then have opened and
// closed without this member: enter again if that makes sense. ErrNoAuth; ErrInvalidPath; ErrBadArguments; ErrClosed;
// framework.ErrTimeoutTooShort. Whatever the error, the node is taken back.
func (d *Double) Enter(ctx context.Context) (*Member, error) {
	err := queue.Ready(ctx, d.client, d.err)
	var m *Member
	if err == nil {
		m, err = d.enter(ctx)
	}
	if err != nil {
		return nil, wrap(d.path, "enter", err)
	}
	return m, nil
}

func (d *Double) enter(ctx context.Context) (*Member, error) {
	if err := d.company.settle(ctx, d.client); err != nil {
		return nil, err
	}
	session, err := d.client.SessionSoon(ctx)
	if err != nil {
		return nil, err
	}
	m := &Member{d: d, session: session, view: session.Client().ForRecipes(), name: zkpath.NewGUID()}
	in := false
	defer func() {
		if !in { // also when a hook, an ACL provider or a retry policy has panicked
			m.abandon()
		}
	}()
	names, czxid, err := m.join(ctx)
	if err != nil {
		return nil, err
	}
	// From here on the node is watched: without it there is no point in waiting.
	m.hold, err = session.Hold(ctx, framework.HoldOptions{Path: m.Path(), Recipe: "double-barrier", Czxid: czxid, Loss: framework.SessionOnly, Values: ctx})
	if err != nil {
		return nil, err
	}
	for {
		open, err := m.decide(ctx, names)
		if err == nil && !open {
			if open, err = m.await(ctx); open {
				m.lookAround()
			}
		}
		if err == nil && open {
			err = m.lost()
		}
		if err != nil {
			return nil, err
		}
		if open {
			in = true
			return m, nil
		}
		if names, err = m.list(ctx); err != nil {
			return nil, err
		}
	}
}

// Member is somebody who is inside a double barrier. Safe for concurrent use: any goroutine may leave.
type Member struct {
	d       *Double
	session *framework.Session
	view    *framework.Client // pinned to session
	name    string            // the node's, a new one for each Enter
	hold    *framework.Hold
	left    atomic.Bool
}

// Context is the one to work under: it ends when the membership is lost, or with Leave, and context.Cause says which: ErrSessionLost,
// ErrNodeDeleted, ErrReleased, or framework.ErrClosed. When the session is lost it ends before the servers can tell the others that this
// member is gone. It has the values of the context given to Enter, but neither its end nor its deadline. Its Err also looks at the clock.
func (m *Member) Context() context.Context { return m.hold.Context() }

// Path returns that of the member's node.
func (m *Member) Path() string { return m.d.child(m.name) }

// lost returns how the membership was lost, nil if it was not.
func (m *Member) lost() error {
	if m.hold.Valid() {
		return nil
	}
	return context.Cause(m.hold.Context())
}

// join creates the node and lists the directory, in one flight.
func (m *Member) join(ctx context.Context) (names []string, czxid int64, err error) {
	create := m.view.Create().WithMode(framework.Ephemeral).CreatingParentContainersIfNeeded().InBackground()
	err = m.view.Retry(ctx, func(ctx context.Context) error {
		created := create.ForPath(ctx, m.Path(), m.d.data)
		listed := m.view.GetChildren().InBackground().ForPath(ctx, m.d.path)
		node, err := queue.Result(created)
		list, listErr := queue.Result(listed)
		// The name is ours alone: if it exists, an attempt before this one has made it and its reply was lost.
		if err = unless(err, framework.ErrNodeExists); err != nil {
			return err
		}
		czxid = node.Stat.Czxid
		if listErr == nil {
			names = m.d.children(list.Names)
		}
		return nil
	}, retry.WithRetryable(queue.Transient(m.view)))
	// The list came before the node if the directory had to be made first, and it may have been lost.
	if err == nil && !slices.Contains(names, m.name) {
		names, err = m.list(ctx)
	}
	return names, czxid, err
}

// list reads the directory, however long the connection is away.
func (m *Member) list(ctx context.Context) (names []string, err error) {
	err = queue.ThroughOutages(ctx, m.view, func(ctx context.Context) error {
		names, err = m.view.GetChildren().ForPath(ctx, m.d.path)
		return unless(err, framework.ErrNoNode)
	})
	return m.d.children(names), err
}

// decide says whether the barrier is open, and opens it if there are enough members. A list that has everything in it was made behind the own
// create: of those who complete the number at least the last one sees that it is complete.
func (m *Member) decide(ctx context.Context, names []string) (open bool, err error) {
	open, members := split(names)
	m.d.company.met(members, m.d.qty)
	switch {
	case !slices.Contains(members, m.name):
		return false, errNotListed
	case open, len(members) < m.d.qty:
		return open, nil
	}
	create := m.view.Create().InBackground()
	err = queue.ThroughOutages(ctx, m.view, func(ctx context.Context) error {
		_, err := queue.Result(create.ForPath(ctx, m.d.ready(), nil))
		return unless(err, framework.ErrNodeExists)
	})
	if errors.Is(err, framework.ErrNoNode) {
		return false, errNotListed // the directory is gone, so the node is
	}
	return err == nil, err
}

var errNotListed = fmt.Errorf("the member's node is gone: %w", ErrNodeDeleted)

// await waits until the barrier is opened. That event is enough: our node was there before the watch, so that we belong to those for whom it
// was opened, whatever has become of them, and of "ready", since. False without an error means that it is time to look again.
func (m *Member) await(ctx context.Context) (open bool, err error) {
	var found *framework.Stat
	var watch *framework.Watch
	err = queue.ThroughOutages(ctx, m.view, func(ctx context.Context) (err error) {
		found, watch, err = m.view.CheckExists().WithWatch().ForPath(ctx, m.d.ready())
		return err
	})
	if err != nil {
		return false, err
	}
	defer watch.Stop()
	if found != nil {
		return true, nil
	}
	check := time.NewTimer(queue.Jittered(m.session.Timeout()))
	defer check.Stop()
	for {
		select {
		case ev := <-watch.C:
			if ev.Type == framework.EventEnd {
				return false, ev.Err
			}
			return ev.Type == framework.EventNodeCreated, nil
		case <-check.C:
			// A newer server drops the event if whoever opens the barrier lets us not READ "ready". To see that it is there one needs no right.
			if found, err := m.view.CheckExists().ForPath(ctx, m.d.ready()); err == nil && found != nil {
				return true, nil
			}
			check.Reset(queue.Jittered(m.session.Timeout()))
		case <-m.hold.Context().Done():
			return false, context.Cause(m.hold.Context())
		case <-ctx.Done():
			select {
			case ev := <-watch.C:
				if ev.Type == framework.EventNodeCreated {
					return true, nil
				}
			default:
			}
			return false, m.d.client.Left(ctx, nil)
		}
	}
}

// lookAround finds out, once for all rounds and without delaying anybody, who else is in.
func (m *Member) lookAround() {
	if d := m.d; d.company.unsure() {
		m.view.GetChildren().InBackground().ForPath(context.Background(), d.path).Then(func(list framework.ChildrenResult, err error) {
			if err == nil {
				_, members := split(d.children(list.Names))
				d.company.met(members, d.qty)
			}
		})
	}
}

// abandon takes the node back behind the caller's back, and closes the barrier if nobody is left in it: in the end, however long the servers cannot
// be reached, unless the client is closed.
func (m *Member) abandon() {
	defer m.remove() // also if a hook does not return
	if m.hold != nil {
		m.hold.End(ErrReleased)
	}
}

// remove is what abandon does about the nodes.
func (m *Member) remove() {
	d := m.d
	// In this order, and behind everything that we have sent: the list shows what is left without us. That holds only if the removal was answered: until
	// then a create of ours that is on its way may be executed behind the list, and the others reckon with our node for as long as it is there.
	removed := m.view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), m.Path())
	listed := d.client.ForRecipes().GetChildren().InBackground().ForPath(context.Background(), d.path)
	removed.Then(func(_ struct{}, err error) {
		switch {
		case errors.Is(err, framework.ErrClosed):
		case err == nil, errors.Is(err, framework.ErrNoAuth):
			listed.Then(m.closeIfLast)
		default:
			d.shutBehind(m.name)
		}
	})
}

// closeIfLast closes the barrier if the list behind the own removal has nobody else: whoever is the last does.
func (m *Member) closeIfLast(list framework.ChildrenResult, err error) {
	d := m.d
	open, members := split(d.children(list.Names))
	switch {
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrClosed), err == nil && !open:
	case err == nil && len(members) > 0 && !slices.Contains(members, m.name):
	default:
		d.shutBehind(m.name)
	}
}

// ready is the path of the node that says that the barrier is open.
func (d *Double) ready() string { return d.child(readyName) }

func (d *Double) child(name string) string { return zkpath.Join(d.path, name) }

// children sorts the names, for split.
func (d *Double) children(names []string) []string {
	slices.Sort(names)
	return names
}

// split takes "ready" out of the sorted children: the rest are members, for Curator and for us, whoever made them.
func split(names []string) (open bool, members []string) {
	at, open := slices.BinarySearch(names, readyName)
	if !open {
		return false, names
	}
	return true, slices.Delete(slices.Clone(names), at, at+1)
}
