package assignment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/node"
)

// Func works on an item until ctx ends.
type Func func(ctx context.Context, item Item) error

// Assignment is a member that shares the items at a path with other members. Safe for concurrent use.
type Assignment struct {
	client *framework.Client
	path   string
	id     string
	weight int // the initial weight
	settle time.Duration
	err    error // of the constructor

	mu            sync.Mutex
	changed       flow.Signal // a field below has changed
	running       bool
	itemsRequest  *itemsRequest // the last one; nil: none
	presentWeight int
	keeper        *node.Keeper // of the present Run; nil: none, or not yet
}

// itemsRequest is a list of items to set.
type itemsRequest struct {
	items        []string // sorted, each once; not changed
	initialItems bool     // from New or SetItems before Run; not changed
	completed    bool     // guarded by mu, like err
	err          error    // why it was refused
}

// New returns a member of the group at path, which shares these items with the other members. Nothing is sent before
// Run. An item is a name that must be valid for a node: not empty, without "/". The list replaces the group's list
// when Run starts. nil leaves the group's list as it is; an empty one removes all items.
//
// If an argument is wrong (a nil client, an invalid path or the root, an item that is not a valid name, a wrong
// option) every method that returns an error returns it, before it sends anything: framework.ErrNoClient,
// ErrInvalidPath, ErrBadArguments, ErrInvalidOption.
func New(client *framework.Client, path string, items []string, opts ...Option) *Assignment {
	a := &Assignment{
		client: client, path: path, id: zkpath.NewGUID(), weight: 1, settle: 500 * time.Millisecond,
	}
	if a.err = line.Configure(client, path, a, opts); a.err == nil {
		a.err = checkItems(items)
	}
	a.presentWeight = a.weight
	if items != nil {
		a.itemsRequest = &itemsRequest{items: sortedItems(items), initialItems: true}
	}
	return a
}

// ID returns the member's id.
func (a *Assignment) ID() string { return a.id }

// membersPath returns the path of the node that has the plan, with the members below it.
func (a *Assignment) membersPath() string { return zkpath.Join(a.path, "members") }

// Plan returns the member that each item is planned for, as read from the connected server; the owner is "" while no
// member accepts items. A plan grants nothing: the item's lock decides which member holds the item, which may be
// another one for a moment. The map is empty if the group has no plan yet. No Run is needed.
//
// Errors: ErrBadPlan, and the errors of reading a node.
func (a *Assignment) Plan(ctx context.Context) (map[string]string, error) {
	owners, err := a.readPlan(ctx)
	return owners, a.wrapError("plan", err)
}

func (a *Assignment) readPlan(ctx context.Context) (map[string]string, error) {
	if err := a.checkReady(ctx); err != nil {
		return nil, err
	}
	data, err := a.client.GetData().Undecompressed().ForPath(ctx, a.membersPath())
	data, err = line.UnpackData(a.client, a.membersPath(), data, err)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return nil, err
	}
	owners, err := decodePlan(data)
	if owners == nil && err == nil {
		owners = map[string]string{}
	}
	return owners, err
}

// SetItems replaces the list of items, for the whole group. It waits until the list is in the plan, which takes the
// settle time or a little more, through lost connections and sessions. If another member sets a list at the same
// time, the last one set remains. A call that is overtaken by another of this Assignment returns together with that
// one. Before Run it only replaces the list that was given to New.
//
// When ctx ends, Run keeps trying. Errors: ctx's; framework.ErrBadArguments for an item that cannot be the name of a
// node; ErrNotRunning if Run ends first: the next Run sets the list. framework.ErrTooLarge if the plan would not fit
// into a request, or another refusal of the server (framework.ErrNoAuth, …); then the group keeps its list.
func (a *Assignment) SetItems(ctx context.Context, items []string) error {
	return a.wrapError("set items", a.setItems(ctx, items))
}

func (a *Assignment) setItems(ctx context.Context, items []string) error {
	err := a.checkReady(ctx)
	if err == nil {
		err = checkItems(items)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.itemsRequest = &itemsRequest{items: sortedItems(items), initialItems: !a.running}
	if a.changed.Fire(); !a.running {
		return nil
	}
	for a.running && !a.itemsRequest.completed {
		changed := a.changed.C()
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			err = a.client.WaitError(ctx, nil)
		}
		if a.mu.Lock(); err != nil {
			return err
		}
	}
	if !a.itemsRequest.completed {
		return ErrNotRunning
	}
	return a.itemsRequest.err
}

// SetWeight sets the member's weight, 0 to 1,000,000, as [WithWeight] does. With 0 the member releases its items to
// the others and accepts none. During Run it waits until the weight is in the tree, as node.Keeper.SetData does.
// Errors: framework.ErrBadArguments, and the errors of node.Keeper.SetData.
func (a *Assignment) SetWeight(ctx context.Context, weight int) error {
	return a.wrapError("set weight", a.setWeight(ctx, weight))
}

func (a *Assignment) setWeight(ctx context.Context, weight int) error {
	err := a.checkReady(ctx)
	if err == nil {
		err = checkWeight(weight)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.presentWeight = weight
	keeper := a.keeper
	a.mu.Unlock()
	if keeper == nil {
		return nil
	}
	return keeper.SetData(ctx, marshalJSON(memberContent{int64(weight)}))
}

// Run makes the process a member of the group until ctx ends. It calls f for each item that the member holds, each on
// a separate goroutine; never twice at a time for one item. The context of f has the values of ctx. It ends with ctx;
// when the item is planned for another member (the cause is [ErrMoved]); and when the item's lock is lost: the
// session has expired or may expire soon, or another client has deleted the lock's node. f should return soon then:
// the next owner has to wait for it.
//
// When ctx ends, Run leaves the group, ends the contexts, and returns as soon as all functions have returned. The
// client deletes the member's node and releases the locks in the background. The error then matches ctx.Err() and
// context.Cause(ctx). While another process has the id ([WithID]) Run waits until the node of that process's session
// is gone. It logs that session, and the error includes it if ctx ends before.
//
// Run continues through lost connections and lost sessions. Other errors: ErrRunning if another Run has not returned
// yet; framework.ErrNoAuth if the client may not create its member's node or read the plan; framework.ErrTooLarge if
// the list of New is too long; framework.ErrClosed; ErrSessionLost, if client is the view of a session that has
// ended. If f calls runtime.Goexit, it counts as an error of f.
func (a *Assignment) Run(ctx context.Context, f Func) error {
	return a.wrapError("run", a.runMember(ctx, f))
}

func (a *Assignment) runMember(ctx context.Context, f Func) error {
	err := a.checkReady(ctx)
	if err == nil && f == nil {
		err = fmt.Errorf("%w: Run without a function", framework.ErrBadArguments)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	already := a.running
	a.running = true
	a.mu.Unlock()
	if already {
		return ErrRunning
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running, a.keeper = false, nil
		a.changed.Fire()
	}()
	r := &memberRun{assignment: a, function: f, workers: map[string]*itemWorker{},
		endedWorkers: flow.NewQueue[*itemWorker]()}
	err = r.runUntilEnd(ctx)
	if ctx.Err() != nil && !(errors.Is(err, ctx.Err()) && errors.Is(err, context.Cause(ctx))) {
		return a.client.WaitError(ctx, nil)
	}
	return err
}

func (a *Assignment) checkReady(ctx context.Context) error {
	return line.CheckCall(ctx, a.client, a.err)
}

func (a *Assignment) wrapError(verb string, err error) error {
	return line.WrapError("assignment", a.path, verb, err)
}

// pendingRequest returns the list to set, nil if there is none, and a channel that is closed at the next change.
func (a *Assignment) pendingRequest() (*itemsRequest, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.itemsRequest == nil || a.itemsRequest.completed {
		return nil, a.changed.C()
	}
	return a.itemsRequest, a.changed.C()
}

// completeRequest records that the plan has the list, or why the list was refused.
func (a *Assignment) completeRequest(request *itemsRequest, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	request.completed, request.err = true, err
	a.changed.Fire()
}
