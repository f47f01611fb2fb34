package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/node"
)

// Info describes one member.
type Info struct {
	ID   string
	Data []byte // shared: do not change it
	// Czxid is the transaction in which it joined, a new one each time. SessionID is the session of its node.
	Czxid, SessionID int64
	// DataErr is the reason why Data is missing: framework.ErrDataTooLarge if there are more than
	// framework.ContenderDataLimit.
	DataErr error
	mzxid   int64
}

// Group reports the members of the group at a path. Safe for concurrent use.
type Group struct {
	client     *framework.Client
	path       string
	cache      *cache.PathChildren
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu         sync.Mutex
	changed    flow.Signal // a field below has changed
	members    []Info      // by Czxid: in the order of joining
	current    bool
	nonMembers map[string]int64 // nodes that belong to no session, by name, with their czxids
	followers  map[*flow.Queue[Event]]struct{}
	endedErr   error // the error that has ended the updates
}

// Watch starts to follow the group at path in the background. The path need not exist. Close the group when you are
// done; it also ends with its client.
//
// Errors: framework.ErrNoClient, framework.ErrInvalidPath (also for the root).
func Watch(client *framework.Client, path string) (*Group, error) {
	g, err := watchGroup(client, path)
	return g, line.WrapError("group", path, "watch", err)
}

func watchGroup(client *framework.Client, path string) (*Group, error) {
	if err := line.CheckArguments(client, path); err != nil {
		return nil, err
	}
	// The events only wake the goroutine: a small buffer will do.
	c, err := cache.NewPathChildren(client, path, cache.WithBuffer(1))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Group{client: client, path: path, cache: c, cancel: cancel,
		followers: map[*flow.Queue[Event]]struct{}{}}
	g.goroutines.Go(func() { g.followCache(ctx) })
	return g, nil
}

// Path returns the path of the group.
func (g *Group) Path() string { return g.path }

// Close ends the group's view of its members. It does not end a membership: see [Member.Leave]. Closing again
// does nothing. The error is always nil.
func (g *Group) Close() error {
	if g.cache == nil {
		return nil
	}
	g.cancel()
	g.goroutines.Wait()
	return g.cache.Close()
}

// Members returns the members in the order of joining, and whether they are current. They are not current without a
// connection, and until changes from that time have been read: then they are the last known ones.
func (g *Group) Members() (members []Info, current bool) {
	if g.cache == nil {
		return nil, false
	}
	g.update()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members), g.current
}

// WaitFor waits until there are at least n members, while the members are current, and returns them. When ctx ends
// before, the error matches ctx.Err(). Other errors: framework.ErrNoAuth if the client may not read the group;
// framework.ErrClosed; cache.ErrClosed after Close.
func (g *Group) WaitFor(ctx context.Context, n int) ([]Info, error) {
	members, err := g.waitForMembers(ctx, n)
	return members, line.WrapError("group", g.path, "wait for members", err)
}

func (g *Group) waitForMembers(ctx context.Context, n int) ([]Info, error) {
	if err := line.CheckCall(ctx, g.client, nil); err != nil {
		return nil, err
	}
	for {
		// Its error is a reason why the members do not become current.
		if err := g.cache.WaitSynced(ctx); err != nil {
			return nil, err
		}
		g.mu.Lock()
		changed := g.changed.C()
		g.mu.Unlock()
		members, current := g.Members()
		if current && len(members) >= n {
			return members, nil
		}
		g.mu.Lock()
		endedErr := g.endedErr
		g.mu.Unlock()
		if endedErr != nil {
			return nil, endedErr
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, g.client.WaitError(ctx, nil)
		}
	}
}

// followCache updates the members whenever the cache reports a change, and when it is in sync again.
func (g *Group) followCache(ctx context.Context) {
	var syncing sync.WaitGroup
	defer syncing.Wait()
	waits := make(chan struct{}, 1) // full while a goroutine waits for sync
	var endedErr error
	for _, err := range g.cache.Events(ctx) {
		if err != nil {
			if endedErr = err; ctx.Err() != nil {
				endedErr = cache.ErrClosed
			}
			break
		}
		if g.update() {
			continue
		}
		select {
		case waits <- struct{}{}:
			syncing.Go(func() {
				defer func() { <-waits }()
				for !g.update() && ctx.Err() == nil &&
					g.client.WaitConnected(ctx) == nil && g.cache.WaitSynced(ctx) == nil {
					if g.update() {
						return
					}
					g.client.Pause(ctx, 10*time.Millisecond) // the connection was lost again
				}
			})
		default:
		}
	}
	g.endUpdates(endedErr)
}

// update compares the cache with the last known members, and sends the differences to the followers. It reports whether
// the members are current.
func (g *Group) update() (current bool) {
	current, newNonMembers := g.compareCache()
	for _, path := range newNonMembers {
		g.client.Logger().Warn("a child of a group is not an ephemeral node, so it is not counted as a member",
			"path", plain.Text(path))
	}
	return current
}

// compareCache is update without its log lines. It returns the new nodes that belong to no session.
func (g *Group) compareCache() (current bool, newNonMembers []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.endedErr != nil {
		return false, nil
	}
	reported := g.nonMembers
	g.nonMembers = map[string]int64{}
	// Before the nodes are read, which are then at least as new as current claims.
	current = g.client.State().State.IsConnected() && g.cache.Progress().Synced && !g.isUnreadable()
	known := map[string]Info{}
	for _, m := range g.members {
		known[m.ID] = m
	}
	var members []Info
	for name, n := range g.cache.All() {
		if n.Stat.EphemeralOwner == 0 {
			if g.nonMembers[name] = n.Stat.Czxid; reported[name] != n.Stat.Czxid {
				newNonMembers = append(newNonMembers, n.Path)
			}
			continue
		}
		m := Info{ID: name, Czxid: n.Stat.Czxid, SessionID: n.Stat.EphemeralOwner, mzxid: n.Stat.Mzxid}
		if before := known[name]; before.Czxid == m.Czxid && before.mzxid == m.mzxid {
			m = before
		} else {
			m.Data, m.DataErr = g.client.Unpacked(n.Path, n.Data)
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Czxid, b.Czxid), cmp.Compare(a.ID, b.ID))
	})
	events := eventsBetween(g.members, members)
	switch {
	case current && !g.current:
		events = append(events, Event{Type: Current})
	case !current && g.current:
		events = append([]Event{{Type: Outdated}}, events...)
	}
	if len(events) > 0 {
		g.members, g.current = members, current
		g.sendEvents(events)
	}
	return current, newNonMembers
}

// isUnreadable reports whether the client may not list the members.
func (g *Group) isUnreadable() bool {
	for path := range g.cache.Failures() { // parents come first
		return path == g.path
	}
	return false
}

// sendEvents sends events to the followers, and wakes the waiters. mu is held.
func (g *Group) sendEvents(events []Event) {
	for follower := range g.followers {
		for _, event := range events {
			follower.Put(event)
		}
	}
	g.changed.Fire()
}

func (g *Group) endUpdates(endedErr error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endedErr, g.current = endedErr, false
	g.changed.Fire()
}

// Member is a member of a group, with a view of the other members.
type Member struct {
	*Group
	keeper *node.Keeper
	id     string
}

// Join makes the process a member of the group at path, in the background, with these data; nil data are the client's
// default data. Missing parents are made as containers. The id is the name of the member's node: if another session
// has it, such as a former process's that was killed, the member waits until the node is gone, or replaces it
// immediately, with the option node.WithTakeover. Options that make a node of no session (a persistent node.WithMode,
// node.WithTTL) are refused: such a node would not end with the process.
//
// Errors, each before anything is started: framework.ErrNoClient, framework.ErrInvalidPath, also if the id
// cannot be a name, framework.ErrInvalidOption.
//
// Corresponds to Curator's GroupMember.
func Join(client *framework.Client, path, id string, data []byte, opts ...node.Option) (*Member, error) {
	m, err := joinGroup(client, path, id, data, opts)
	return m, line.WrapError("group", path, "join", err)
}

func joinGroup(client *framework.Client, path, id string, data []byte, opts []node.Option) (*Member, error) {
	g, err := watchGroup(client, path)
	if err != nil {
		return nil, err
	}
	m := &Member{Group: g, id: id}
	if id == "" || strings.Contains(id, "/") {
		err = fmt.Errorf("%w: the id %q is not a name", framework.ErrInvalidPath, id)
	} else {
		var last node.Option = ephemeralOnly
		m.keeper, err = node.NewKeeper(client, zkpath.Join(path, id), data, append(slices.Clone(opts), last)...)
	}
	if err != nil {
		_ = g.Close()
		return nil, err
	}
	return m, nil
}

// ephemeralOnly is a node.Option that refuses the options before it if they make a node of no session.
func ephemeralOnly[C interface{ Persistent() bool }](keeper C) error {
	if keeper.Persistent() {
		return fmt.Errorf("%w: a member's node goes with its session; leave out WithTTL, and WithMode if it is persistent",
			framework.ErrInvalidOption)
	}
	return nil
}

// ID returns the member's id.
func (m *Member) ID() string { return m.id }

// Joined waits until the member's node is there, as node.Keeper.WaitCreated does.
func (m *Member) Joined(ctx context.Context) error { return m.keeper.WaitCreated(ctx) }

// SetData sets the member's data, as node.Keeper.SetData does. Corresponds to GroupMember.setThisData.
func (m *Member) SetData(ctx context.Context, data []byte) error { return m.keeper.SetData(ctx, data) }

// Status returns the status of the member's own node, as node.Keeper.Status does.
func (m *Member) Status() node.Status { return m.keeper.Status() }

// Leave ends the membership: it deletes the member's node for certain and waits for that, as node.Keeper.Close does,
// and closes the group. If ctx ends before, Leave returns its error, and the node is deleted in the background.
// Another Leave waits for the same.
func (m *Member) Leave(ctx context.Context) error {
	err := m.keeper.Close(ctx)
	_ = m.Group.Close()
	return err
}

// LeaveInBackground is Leave for a caller that does not wait: it closes the group, and the node is deleted in the
// background. then, if given, gets the error that Leave would return, as with node.Keeper.CloseInBackground.
func (m *Member) LeaveInBackground(then ...func(err error)) {
	m.keeper.CloseInBackground(then...)
	_ = m.Group.Close()
}
