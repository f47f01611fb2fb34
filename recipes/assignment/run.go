package assignment

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/node"
)

// memberRun is one call of Run. Its fields belong to the caller's goroutine.
type memberRun struct {
	assignment   *Assignment
	function     Func
	ctx          context.Context // of Run
	cache        *cache.Cache
	view         treeView
	lastPlan     map[string]string      // the last plan read
	workers      map[string]*itemWorker // by item
	endedWorkers *flow.Queue[*itemWorker]
	goroutines   sync.WaitGroup
	unfitSince   time.Time     // when the plan was first seen to be unfit, or the end of the last attempt to write it
	failures     int           // of writePlan, in a row
	pause        time.Duration // after the last failure
}

func (r *memberRun) runUntilEnd(ctx context.Context) error {
	r.ctx = ctx
	if err := r.makeDirectory(ctx); err != nil {
		return err
	}
	keeper, err := r.createMember()
	if err != nil {
		return err
	}
	// The node is deleted in the background: the error of the ended context does not matter.
	leave := func() { _ = keeper.Close(endedContext) }
	defer leave()
	if err = keeper.WaitCreated(ctx); err != nil {
		return err
	}
	if r.cache, err = cache.NewTree(r.assignment.client, r.assignment.membersPath(), cache.WithMaxDepth(1)); err != nil {
		return err
	}
	defer r.cache.Close()

	following, cancel := context.WithCancel(ctx)
	views, followEnded := flow.NewQueue[treeView](), make(chan error, 1)
	r.goroutines.Go(func() { followEnded <- r.followTree(following, views) })
	defer r.goroutines.Wait()
	defer cancel()
	err = r.handleChanges(ctx, views, followEnded)
	leave() // before the functions return, so that the other members can prepare
	for _, w := range r.workers {
		w.cancel(err)
	}
	return err
}

// endedContext is a context that has ended, for clean-ups in the background.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// makeDirectory creates the plan's node, which stays without members.
func (r *memberRun) makeDirectory(ctx context.Context) error {
	client := r.assignment.client
	return line.RetryThrough(ctx, client, line.ReadOnlyMembers, func(ctx context.Context) error {
		_, err := client.Create().CreatingParentContainersIfNeeded().ForPath(ctx, r.assignment.membersPath(), []byte{})
		return line.IgnoreError(err, framework.ErrNodeExists)
	})
}

func (r *memberRun) createMember() (*node.Keeper, error) {
	a := r.assignment
	a.mu.Lock()
	defer a.mu.Unlock()
	keeper, err := node.NewKeeper(a.client, a.membersPath()+"/"+a.id, marshalJSON(memberContent{int64(a.presentWeight)}))
	a.keeper = keeper
	return keeper, err
}

// followTree sends the views of the tree, until an error ends it.
func (r *memberRun) followTree(ctx context.Context, views *flow.Queue[treeView]) error {
	if err := r.cache.WaitSynced(ctx); err != nil {
		return err
	}
	for nodes, err := range cache.Follow(ctx, r.cache) {
		if err != nil {
			return err
		}
		views.Put(viewOfTree(r.assignment.membersPath(), nodes))
	}
	return nil
}

// handleChanges acts on the views, until ctx or the client ends.
func (r *memberRun) handleChanges(ctx context.Context, views *flow.Queue[treeView], followEnded <-chan error) error {
	dueTimer := time.NewTimer(time.Hour)
	defer dueTimer.Stop()
	written := make(chan error, 1)
	var writing *itemsRequest // in the plan in flight
	busy := false             // a plan is in flight
	for {
		request, changed := r.assignment.pendingRequest()
		if !busy {
			if owners := r.planToWrite(request, dueTimer); owners != nil {
				seen := r.view
				busy, writing = true, request
				r.goroutines.Go(func() { written <- r.writePlan(ctx, owners, seen) })
			}
		}
		r.assignItems()
		for again := true; again; {
			again = false
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case err := <-followEnded:
				return err
			case <-views.More():
				for _, v := range views.Take() {
					r.setView(v)
				}
			case <-r.endedWorkers.More():
				for _, w := range r.endedWorkers.Take() {
					delete(r.workers, w.item)
				}
				r.assignItems()
				again = true // the plan is the same
			case err := <-written:
				busy = false
				if err := r.handleWritten(err, writing); err != nil {
					return err
				}
			case <-changed:
			case <-dueTimer.C:
			}
		}
	}
}

func (r *memberRun) setView(v treeView) {
	if v.err != nil && (v.version != r.view.version || v.czxid != r.view.czxid) {
		r.assignment.client.Logger().Warn("cannot read the plan of an assignment; replacing it",
			"path", r.assignment.membersPath(), "err", v.err)
	}
	if r.view = v; v.owners != nil {
		r.lastPlan = v.owners
	}
}

// planToWrite returns the plan to write now, or sets the timer for it.
func (r *memberRun) planToWrite(request *itemsRequest, timer *time.Timer) map[string]string {
	s := nextUpdate(r.view, r.assignment.id, request, r.lastPlan, r.assignment.settle)
	if s.requestMet {
		r.assignment.completeRequest(request, nil)
	}
	if s.owners == nil {
		r.unfitSince, r.failures, r.pause = time.Time{}, 0, 0
		return nil
	}
	if r.unfitSince.IsZero() {
		r.unfitSince = time.Now()
	}
	delay := s.delay + r.pause
	wait := time.Until(r.unfitSince.Add(delay))
	if wait <= 0 && !r.isCurrent() { // the view may be old: then the other members write first
		r.unfitSince, wait = time.Now(), delay
	}
	if wait <= 0 {
		return s.owners
	}
	timer.Reset(wait)
	return nil
}

// isCurrent reports whether the view is in sync with the connected server.
func (r *memberRun) isCurrent() bool {
	return r.assignment.client.State().State.IsConnected() && r.cache.Progress().Synced
}

// errOutdated is the error if the members differ from the view.
var errOutdated = errors.New("the members have changed")

// writePlan tries once to replace the plan of the view, if the members are still the view's. It lists them, since on a
// connection whose loss is not detected yet events may be late, and a new member does not change the plan's version.
func (r *memberRun) writePlan(ctx context.Context, owners map[string]string, view treeView) error {
	list, err := r.assignment.client.GetChildren().InBackground().ForPath(ctx, r.assignment.membersPath()).Wait(ctx)
	if err == nil {
		for _, name := range r.differingNames(list.Names, view.names) {
			if !r.isUnreadable(ctx, name) {
				return errOutdated
			}
		}
	}
	if err = line.IgnoreError(err, framework.ErrNoNode); err != nil {
		return err
	}
	if !view.exists {
		_, err := r.assignment.client.Create().InBackground().
			ForPath(ctx, r.assignment.membersPath(), encodePlan(owners)).Wait(ctx)
		return err
	}
	_, err = r.assignment.client.SetData().WithVersion(view.version).InBackground().
		ForPath(ctx, r.assignment.membersPath(), encodePlan(owners)).Wait(ctx)
	return err
}

// differingNames returns the names that only one of the lists has, apart from nodes that the cache could not read.
func (r *memberRun) differingNames(listed, seen []string) (names []string) {
	once := map[string]bool{} // true: in one of the lists only
	for _, name := range slices.Concat(listed, seen) {
		once[name] = !once[name]
	}
	for path := range r.cache.Failures() {
		delete(once, zkpath.Base(path))
	}
	for name, differs := range once {
		if differs {
			names = append(names, name)
		}
	}
	return names
}

// isUnreadable reports whether the client may not read a child of the members' directory. The cache need not have tried: the
// servers drop the event of such a node's creation.
func (r *memberRun) isUnreadable(ctx context.Context, name string) bool {
	path := zkpath.Join(r.assignment.membersPath(), name)
	_, err := r.assignment.client.GetData().Undecompressed().InBackground().ForPath(ctx, path).Wait(ctx)
	return errors.Is(err, framework.ErrNoAuth)
}

// handleWritten handles the result of writePlan; its own error ends Run. The next view shows whether the plan fits now.
func (r *memberRun) handleWritten(err error, request *itemsRequest) error {
	r.unfitSince = time.Now()
	conflict := errors.Is(err, errOutdated) || errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNodeExists) ||
		errors.Is(err, framework.ErrNoNode)
	if err == nil || conflict {
		r.failures, r.pause = 0, 0
		return nil
	}
	if line.IsRefused(err) && request != nil {
		r.assignment.completeRequest(request, err)
		if request.initialItems {
			return err
		}
		return nil
	}
	if line.IsRefused(err) {
		r.assignment.client.Logger().Warn("cannot write the plan of an assignment; retrying",
			"path", r.assignment.membersPath(), "err", err)
	}
	r.failures++
	r.pause = chance.UpTo(maxPause(r.failures))
	return nil
}

// maxPause returns the upper bound of the pause after so many failures in a row.
func maxPause(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures-1, 7), 10*time.Second)
}

// assignItems starts work on the items that the plan assigns to this member, and cancels all others.
func (r *memberRun) assignItems() {
	for item, w := range r.workers {
		if r.lastPlan[item] != r.assignment.id {
			w.cancel(ErrMoved)
		}
	}
	for item, owner := range r.lastPlan {
		if owner == r.assignment.id && r.workers[item] == nil {
			r.startWorker(item)
		}
	}
}
