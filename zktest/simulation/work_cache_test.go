package simulation_test

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func init() { kinds["cache"] = newCacheWork }

// cacheWork: all clients change a tree, and have caches with listeners: of the whole tree, of the children of its root,
// of one node.
type cacheWork struct {
	path string

	mu     sync.Mutex
	copies map[int][]*replica // by client
}

// replica is a cache, and the tree made from its events.
type replica struct {
	kind  string
	root  string // of a cache that reports all its nodes: a node's parent is reported before it
	get   func(path string) (cache.Node, bool)
	len   func() int
	has   func(path string) bool // the cache holds nodes of this path
	close func() error
	done  chan struct{} // the listener has ended

	mu    sync.Mutex
	nodes map[string]*cache.Node
	last  map[string]int64 // czxids of deleted nodes, by path
	inits int
}

func newCacheWork(w *world) workload {
	k := &cacheWork{path: root + "/cache", copies: map[int][]*replica{}}
	w.must(w.ens.Member(0).Create(k.path, nil))
	return k
}

func (k *cacheWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	if a.r.IntN(12) == 0 {
		k.end(a)
	}
	if err := k.begin(a); err != nil {
		return err
	}
	at := fmt.Sprintf("%s/%d", k.path, a.r.IntN(8))
	if a.r.IntN(2) == 0 {
		at += fmt.Sprintf("/%d", a.r.IntN(4))
	}
	data := fmt.Appendf(nil, "%d by %d", a.turn, a.id)
	var err error
	what := a.r.IntN(4)
	done := a.timed(ctx, "a change")
	switch what {
	case 0:
		err = a.c.Delete().Quietly().DeletingChildrenIfNeeded().ForPath(ctx, at)
	default:
		_, err = a.c.Create().OrSetData().CreatingParentsIfNeeded().ForPath(ctx, at, data)
	}
	done()
	if isErr(
		err,
		framework.ErrNoNode,
		framework.ErrNotEmpty,
		framework.ErrNodeExists,
		framework.ErrBadVersion,
	) { // other clients change it at the same time
		return nil
	}
	return err
}

// begin creates the client's caches.
func (k *cacheWork) begin(a *actor) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.copies[a.id] != nil {
		return nil
	}
	tree, err := cache.NewTree(a.c, k.path, treeOptions(a)...)
	if err != nil {
		return err
	}
	k.copies[a.id] = append(
		k.copies[a.id],
		listen(
			a,
			tree.Events,
			&replica{kind: "tree", root: k.path, get: tree.Get, len: tree.Len, close: tree.Close,
				has: func(path string) bool { return path == k.path || strings.HasPrefix(path, k.path+"/") }},
		),
	)
	if a.r.IntN(2) == 0 {
		return nil
	}
	children, err := cache.NewPathChildren(a.c, k.path, options(a)...)
	if err != nil {
		return err
	}
	k.copies[a.id] = append(
		k.copies[a.id],
		listen(a, children.Events, &replica{kind: "children", len: children.Len, close: children.Close,
			get: func(path string) (cache.Node, bool) { return children.Get(strings.TrimPrefix(path, k.path+"/")) },
			has: func(path string) bool {
				name, below := strings.CutPrefix(path, k.path+"/")
				return below && !strings.Contains(name, "/")
			}}),
	)
	path := k.path + "/3"
	node, err := cache.NewNode(a.c, path, options(a)...)
	if err != nil {
		return err
	}
	k.copies[a.id] = append(k.copies[a.id], listen(a, node.Events, &replica{kind: "node", close: node.Close,
		get: func(string) (cache.Node, bool) { return node.Get() },
		has: func(p string) bool { return p == path }}))
	return nil
}

// end closes the client's caches; new ones replace them.
func (k *cacheWork) end(a *actor) {
	k.mu.Lock()
	copies := k.copies[a.id]
	delete(k.copies, a.id)
	k.mu.Unlock()
	for _, r := range copies {
		r.ends(a.w, a.id)
	}
}

// ends closes the cache, which ends its listener's events.
func (r *replica) ends(w *world, client int) {
	if err := r.close(); err != nil {
		w.violate("cache: client %d's %s does not close: %v", client, r.kind, err)
	}
	<-r.done
}

func options(a *actor) []cache.Option {
	opts := []cache.Option{cache.WithBuffer(1 + a.r.IntN(20))}
	if a.w.plan.OneShot {
		opts = append(opts, cache.WithOneShotWatches())
	}
	return opts
}

func treeOptions(a *actor) (opts []cache.TreeOption) {
	for _, o := range options(a) {
		opts = append(opts, o)
	}
	return opts
}

func listen(a *actor, events func(context.Context) iter.Seq2[cache.Event, error], r *replica) *replica {
	r.nodes, r.last, r.done = map[string]*cache.Node{}, map[string]int64{}, make(chan struct{})
	slow := time.Duration(0) // a listener that takes time for a change
	if a.r.IntN(3) == 0 {
		slow = below(a.r, 50*time.Millisecond)
	}
	go func() {
		defer close(r.done)
		for ev, err := range events(background) {
			if err != nil {
				return
			}
			r.play(a, ev)
			time.Sleep(slow)
		}
	}()
	return r
}

// play checks that an event fits the events before it.
func (r *replica) play(a *actor, ev cache.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bad := func(why string) { a.w.violate("cache: client %d's %s: %v, but %s", a.id, r.kind, ev, why) }
	before := r.nodes[ev.Path]
	switch ev.Type {
	case cache.Created:
		if before != nil {
			bad("it was there")
		}
		if r.root != "" && ev.Path != r.root {
			if parent := r.nodes[path.Dir(ev.Path)]; parent == nil {
				bad("its parent was not there")
			} else if parent.Stat.Czxid > ev.New.Stat.Czxid {
				bad("its parent was created after it")
			}
		}
		if r.last[ev.Path] >= ev.New.Stat.Czxid {
			bad("this node had been deleted")
		}
		r.nodes[ev.Path] = ev.New
	case cache.Changed:
		switch {
		case before == nil:
			bad("it was not there")
		case before.Stat.Mzxid >= ev.New.Stat.Mzxid:
			bad("it was newer")
		case before.Stat.Czxid != ev.New.Stat.Czxid:
			bad("it is another node")
		}
		r.nodes[ev.Path] = ev.New
	case cache.Deleted:
		if before == nil {
			bad("it was not there")
		}
		for p := range r.nodes { // a listener that drops everything below must lose nothing
			if strings.HasPrefix(p, ev.Path+"/") {
				bad(p + " is below it")
			}
		}
		r.last[ev.Path] = ev.Old.Stat.Czxid
		delete(r.nodes, ev.Path)
	case cache.Initialized:
		if r.inits++; r.inits > 1 {
			bad("it was already")
		}
	case cache.Failed:
		bad("nothing is wrong with the node")
	}
}

func (k *cacheWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	tree := w.ens.Member(l).Tree()
	for id, copies := range k.copies {
		for _, r := range copies {
			r.compare(w, id, tree)
			r.ends(w, id)
		}
	}
}

// compare checks that the cache, and the tree made from its events, equal the tree.
func (r *replica) compare(w *world, client int, tree map[string]zktest.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inits != 1 {
		w.violate("cache: client %d's %s has said %d times that it is initialized", client, r.kind, r.inits)
	}
	nodes := 0
	for path, want := range tree {
		if !r.has(path) {
			continue
		}
		nodes++
		got, ok := r.get(path)
		pzxid := got.Stat.Pzxid
		if r.kind != "tree" { // it does not keep its nodes' children
			pzxid = want.Stat.Pzxid
		}
		if !ok || string(got.Data) != string(want.Data) || got.Stat.Mzxid != want.Stat.Mzxid ||
			pzxid != want.Stat.Pzxid {
			w.violate(
				"cache: client %d's %s has %s as %q %v (%t), and it is %q %v",
				client,
				r.kind,
				path,
				got.Data,
				got.Stat,
				ok,
				want.Data,
				want.Stat,
			)
		}
		if got := r.nodes[path]; got == nil || string(got.Data) != string(want.Data) ||
			got.Stat.Mzxid != want.Stat.Mzxid {
			w.violate(
				"cache: client %d's %s has events that make %s %v, and it is %q %v",
				client,
				r.kind,
				path,
				got,
				want.Data,
				want.Stat,
			)
		}
	}
	has := len(r.nodes)
	if r.len != nil {
		has = r.len()
	} else if _, ok := r.get(""); ok != (nodes == 1) {
		w.violate("cache: client %d's node is there: %t", client, ok)
	}
	if has != nodes || len(r.nodes) != nodes {
		w.violate(
			"cache: client %d's %s has %d nodes, %d by its events, of %d",
			client,
			r.kind,
			has,
			len(r.nodes),
			nodes,
		)
	}
}
