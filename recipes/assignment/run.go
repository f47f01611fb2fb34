package assignment

import (
	"context"
	"errors"
	"maps"
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

// run is one call of Run. Its fields belong to the caller's goroutine.
type run struct {
	a        *Assignment
	f        Func
	ctx      context.Context // of Run
	cache    *cache.Cache
	view     view
	known    map[string]string   // the last plan read
	working  map[string]*working // by item
	ended    *flow.Queue[*working]
	workers  sync.WaitGroup
	since    time.Time     // when the plan was first seen to be unfit, or the end of the last attempt to write it
	failures int           // of writes, in a row
	pause    time.Duration // after the last of them
}

func (r *run) run(ctx context.Context) error {
	r.ctx = ctx
	if err := r.makeDirectory(ctx); err != nil {
		return err
	}
	keeper, err := r.join()
	if err != nil {
		return err
	}
	// The node is deleted in the background: the error of the ended context does not matter.
	leave := func() { _ = keeper.Close(over) }
	defer leave()
	if err = keeper.WaitCreated(ctx); err != nil {
		return err
	}
	if r.cache, err = cache.NewTree(r.a.client, r.a.dir(), cache.WithMaxDepth(1)); err != nil {
		return err
	}
	defer r.cache.Close()

	following, cancel := context.WithCancel(ctx)
	views, gone := flow.NewQueue[view](), make(chan error, 1)
	r.workers.Go(func() { gone <- r.follow(following, views) })
	defer r.workers.Wait()
	defer cancel()
	err = r.loop(ctx, views, gone)
	leave() // before the functions return, so that the other members can prepare
	for _, w := range r.working {
		w.cancel(err)
	}
	return err
}

// over is a context that has ended, for clean-ups in the background.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// makeDirectory creates the plan's node, which stays without members.
func (r *run) makeDirectory(ctx context.Context) error {
	client := r.a.client
	return line.Outlast(ctx, client, line.ReadOnlyMembers, func(ctx context.Context) error {
		_, err := client.Create().CreatingParentContainersIfNeeded().ForPath(ctx, r.a.dir(), []byte{})
		return line.Unless(err, framework.ErrNodeExists)
	})
}

func (r *run) join() (*node.Keeper, error) {
	a := r.a
	a.mu.Lock()
	defer a.mu.Unlock()
	keeper, err := node.NewKeeper(a.client, a.dir()+"/"+a.id, toJSON(joined{int64(a.now)}))
	a.keeper = keeper
	return keeper, err
}

// follow sends the views of the tree, until an error ends it.
func (r *run) follow(ctx context.Context, views *flow.Queue[view]) error {
	if err := r.cache.WaitSynced(ctx); err != nil {
		return err
	}
	for nodes, err := range cache.Follow(ctx, r.cache) {
		if err != nil {
			return err
		}
		views.Put(viewOf(r.a.dir(), nodes))
	}
	return nil
}

// loop acts on the views, until ctx or the client ends.
func (r *run) loop(ctx context.Context, views *flow.Queue[view], gone <-chan error) error {
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	written := make(chan error, 1)
	var writing *wish // the list in flight
	busy := false
	for {
		w, changed := r.a.wished()
		if !busy {
			if owners := r.due(w, due); owners != nil {
				seen := r.view
				busy, writing = true, w
				r.workers.Go(func() { written <- r.write(ctx, owners, seen) })
			}
		}
		r.assign()
		for again := true; again; {
			again = false
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case err := <-gone:
				return err
			case <-views.More():
				if all := views.Take(); len(all) > 0 {
					r.see(all[len(all)-1])
				}
			case <-r.ended.More():
				for _, w := range r.ended.Take() {
					delete(r.working, w.item)
				}
				r.assign()
				again = true // the plan is the same
			case err := <-written:
				busy = false
				if err := r.wrote(err, writing); err != nil {
					return err
				}
			case <-changed:
			case <-due.C:
			}
		}
	}
}

// see sets the view.
func (r *run) see(v view) {
	if v.err != nil && (v.version != r.view.version || v.czxid != r.view.czxid) {
		r.a.client.Logger().Warn("the plan of an assignment cannot be read; it is written anew",
			"path", r.a.dir(), "err", v.err)
	}
	if r.view = v; v.owners != nil {
		r.known = v.owners
	}
}

// due returns the plan to write now, or sets the timer for it.
func (r *run) due(w *wish, timer *time.Timer) map[string]string {
	s := next(r.view, r.a.id, w, r.known, r.a.settle)
	if s.granted {
		r.a.granted(w, nil)
	}
	if s.owners == nil {
		r.since, r.failures, r.pause = time.Time{}, 0, 0
		return nil
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	wait := time.Until(r.since.Add(s.after + r.pause))
	if wait <= 0 && !r.current() { // the view may be old: then the other members write first
		r.since, wait = time.Now(), s.after+r.pause
	}
	if wait <= 0 {
		return s.owners
	}
	timer.Reset(wait)
	return nil
}

// current reports whether the view is in sync with the connected server.
func (r *run) current() bool {
	return r.a.client.State().State.IsConnected() && r.cache.Progress().Synced
}

// errOutdated is the error if the members differ from the view.
var errOutdated = errors.New("the members have changed")

// write tries once to replace the plan of the view, if the members are still the view's. It lists them, since on a
// connection whose loss is not detected yet events may be late, and a new member does not change the plan's version.
func (r *run) write(ctx context.Context, owners map[string]string, seen view) error {
	list, err := r.a.client.GetChildren().InBackground().ForPath(ctx, r.a.dir()).Wait(ctx)
	if err == nil && !r.same(list.Names, seen.names) {
		err = errOutdated
	}
	if err = line.Unless(err, framework.ErrNoNode); err != nil {
		return err
	}
	if !seen.exists {
		_, err := r.a.client.Create().InBackground().ForPath(ctx, r.a.dir(), encode(owners)).Wait(ctx)
		return err
	}
	_, err = r.a.client.SetData().WithVersion(seen.version).InBackground().
		ForPath(ctx, r.a.dir(), encode(owners)).Wait(ctx)
	return err
}

// same reports whether both lists have the same names, apart from nodes that cannot be read.
func (r *run) same(listed, seen []string) bool {
	once := map[string]bool{} // true: in one of the lists only
	for _, name := range slices.Concat(listed, seen) {
		once[name] = !once[name]
	}
	for path := range r.cache.Failures() {
		delete(once, zkpath.Base(path))
	}
	return !slices.Contains(slices.Collect(maps.Values(once)), true)
}

// wrote handles the result of an attempt; its error ends Run. The next view shows whether the plan fits now.
func (r *run) wrote(err error, w *wish) error {
	r.since = time.Now()
	conflict := errors.Is(err, errOutdated) || errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNodeExists) ||
		errors.Is(err, framework.ErrNoNode)
	if err == nil || conflict {
		r.failures, r.pause = 0, 0
		return nil
	}
	if line.Denied(err) && w != nil {
		r.a.granted(w, err)
		if w.first {
			return err
		}
		return nil
	}
	if line.Denied(err) {
		r.a.client.Logger().Warn("cannot write the plan of an assignment; trying again",
			"path", r.a.dir(), "err", err)
	}
	r.failures++
	r.pause = chance.UpTo(pauseAfter(r.failures))
	return nil
}

// pauseAfter returns the longest pause after so many failures in a row.
func pauseAfter(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures-1, 7), 10*time.Second)
}

// assign starts work on the items that the plan assigns to this member, and cancels all others.
func (r *run) assign() {
	for item, w := range r.working {
		if r.known[item] != r.a.id {
			w.cancel(ErrMoved)
		}
	}
	for item, owner := range r.known {
		if owner == r.a.id && r.working[item] == nil {
			r.start(item)
		}
	}
}
