package mixed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/semaphore"
)

// hold is what somebody has of a lock or a semaphore.
type hold struct {
	p      *process
	weight int
	number int64 // of its node, or its token; of a lease none counts
	valid  func() bool
}

// book knows who has what, and finds out when there are more than there may be.
type book struct {
	c        *crowd
	name     string
	capacity int
	ordered  bool // those who exclude each other come in the order of their numbers

	mu   sync.Mutex
	held map[*hold]bool
	last map[int]*hold // of each weight, the one with the largest number
}

func (c *crowd) book(name string, capacity int, ordered bool) *book {
	return &book{c: c, name: name, capacity: capacity, ordered: ordered,
		held: map[*hold]bool{}, last: map[int]*hold{}}
}

// enter takes down a hold that was granted, and says whether it is one. Java's is one only while its node is
// there: Java itself does not notice that it has lost one.
func (b *book) enter(h *hold) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !h.valid() {
		return false
	}
	sum := h.weight
	var with []*hold
	for other := range b.held {
		if other.valid() {
			sum += other.weight
			with = append(with, other)
		}
	}
	if sum > b.capacity && h.valid() {
		// Who was valid before, and is now, was so at one instant with this one.
		still := h.weight
		for other := range b.held {
			if other.valid() {
				still += other.weight
			}
		}
		if still > b.capacity {
			b.c.t.Errorf("%s: %v holds beside %v", b.name, h, with)
		}
	}
	if b.ordered {
		b.inOrder(h)
	}
	for _, other := range with {
		b.c.count(b.name + ": " + h.meets(other)).Add(1)
	}
	b.held[h] = true
	return true
}

// inOrder makes sure that the number of a hold is larger than those of all whom it excludes that were before. Two
// with the same node are of one process.
func (b *book) inOrder(h *hold) {
	for weight, last := range b.last {
		behind := h.number > last.number || h.number == last.number && h.p == last.p
		if weight+h.weight > b.capacity && !behind {
			b.c.t.Errorf("%s: %v holds after %v", b.name, h, last)
		}
	}
	if last := b.last[h.weight]; last == nil || h.number > last.number {
		b.last[h.weight] = h
	}
}

func (h *hold) String() string {
	return fmt.Sprintf("%s (%d, number %d)", h.p.name, h.weight, h.number)
}

// meets says what two that hold at once have in common.
func (h *hold) meets(other *hold) string {
	switch {
	case h.p.isJava() != other.p.isJava():
		return "Go beside Java"
	case h.p == other.p && h.number == other.number:
		return "with the same node"
	}
	return "in one language"
}

func (b *book) leave(h *hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, h)
}

// keep has somebody hold for a moment.
func (b *book) keep(ctx context.Context, h *hold) bool {
	if !b.enter(h) {
		return false
	}
	defer b.leave(h)
	nap(ctx)
	return true
}

// numberOf is the sequence number of a lock's node, of either language.
func numberOf(node string) int64 {
	n, err := strconv.ParseInt(node[strings.LastIndex(node, "-")+1:], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// there asks the server whether all of the nodes are there, for as long as it takes to get an answer.
func (c *crowd) there(dir string, nodes ...string) bool {
	ctx, cancel := c.soon()
	defer cancel()
	for _, node := range nodes {
		for ctx.Err() == nil {
			stat, err := c.watcher.CheckExists().ForPath(ctx, dir+"/"+node)
			if err == nil && stat == nil {
				return false
			}
			if err == nil {
				break
			}
		}
	}
	return ctx.Err() == nil
}

// held is a mutex's hold of any kind.
type held interface {
	Node() string
	Valid() bool
	Release(ctx context.Context) error
	ReleaseInBackground(then ...func(err error))
}

// way is a way in which this library holds a mutex.
type way struct {
	name string
	make func(c *framework.Client, path string) func(ctx context.Context) (held, error)
	// later has the lock given back without waiting, kept says that a node may stay.
	later, kept bool
	weight      int                   // of a hold; 1 if it is 0
	number      func(lock held) int64 // of a hold; that of its node if it is nil
}

func plain(c *framework.Client, path string) func(ctx context.Context) (held, error) {
	m := mutex.New(c, path)
	return func(ctx context.Context) (held, error) { return some(m.Acquire(ctx)) }
}

func cohort(opts ...mutex.Option) func(c *framework.Client, path string) func(ctx context.Context) (held, error) {
	return func(c *framework.Client, path string) func(ctx context.Context) (held, error) {
		m := mutex.NewCohort(c, path, opts...)
		return func(ctx context.Context) (held, error) { return some(m.Acquire(ctx)) }
	}
}

// some is a hold that is nil when there is none.
func some[H held](h H, err error) (held, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

var ways = []way{
	{name: "plain", make: plain},
	{name: "released in background", make: plain, later: true},
	{name: "cohort", make: cohort(mutex.WithTurns(5, time.Second))},
	{name: "kept", make: cohort(mutex.WithKept(time.Minute)), later: true, kept: true},
}

const (
	leases   = 3
	together = "all together"
)

// Every way in which this library holds a mutex, alone and all together at one path, its semaphore, and its
// read-write lock with readers that share nodes and others that do not, beside Java's, under kills, cuts and lost
// sessions: never two at once that exclude each other, in the order of the nodes, everybody's turn comes when the
// trouble is over, and nothing is left.
func TestLocksInTrouble(t *testing.T) {
	kit.Interop(t, "mutex", kit.Mixed)
	kit.Interop(t, "semaphore", kit.Mixed)
	kit.Interop(t, "read-write lock", kit.Mixed)
	c := &crowd{}
	books := map[string]*book{}
	names := []string{together, "semaphore"}
	for _, w := range ways {
		names = append(names, w.name)
	}
	pathOf := func(name string) string { return "/locks/" + strings.ReplaceAll(name, " ", "-") }
	for _, name := range names {
		books[name] = c.book(name, 1, true)
	}
	books["semaphore"] = c.book("semaphore", leases, false)
	sides := c.book("read-write", room, true)
	c.golang = func(c *crowd, p *process) {
		var work sync.WaitGroup
		defer work.Wait()
		for _, w := range ways {
			for _, name := range []string{w.name, together} {
				acquire := w.make(p.client, pathOf(name))
				contenders := 1
				if w.name == "cohort" || w.name == "kept" {
					contenders = 2
				}
				for range contenders {
					work.Go(func() { c.contend(p, books[name], name, w, acquire) })
				}
			}
		}
		work.Go(func() { c.borrow(p, books["semaphore"], pathOf("semaphore")) })
		work.Go(func() { c.readAndWrite(p, sides) })
	}
	c.java = func(c *crowd, p *process) {
		var work sync.WaitGroup
		defer work.Wait()
		for _, name := range names {
			if name != "semaphore" {
				work.Go(func() { c.contendJava(p, books[name], pathOf(name)) })
			}
		}
		work.Go(func() { c.borrowJava(p, books["semaphore"], pathOf("semaphore")) })
		work.Go(func() { c.readAndWriteJava(p, sides) })
	}
	c.dirs = []string{readWritePath} // so that numbers grow
	for _, name := range names {
		c.dirs = append(c.dirs, pathOf(name))
	}
	works := append(slices.Clone(names), reading, writing)
	gather(t, c, 3, 2)
	c.goOn("", works, 1)
	c.goOn("go", []string{sharing}, 1)
	c.trouble()
	c.goOn("", works, 2)
	c.goOn("go", []string{sharing}, 2)
	c.finish()
	for _, w := range ways {
		if !w.kept {
			c.empty(pathOf(w.name))
		}
	}
	c.empty(readWritePath)
	for _, dir := range []string{"leases", "locks"} {
		c.empty(pathOf("semaphore") + "/" + dir)
	}
	c.leave()
	for _, name := range []string{"kept", together} {
		c.empty(pathOf(name))
	}
	for _, name := range append(works, sharing) {
		kit.Figure(t, "%s: %d turns of Go, %d of Java, under %v", name, c.total("go", " "+name),
			c.total("java", " "+name), c.counts)
	}
	for _, how := range []string{"Go beside Java", "with the same node"} {
		met := c.count(sides.name + ": " + how).Load()
		require.Positive(t, met, "readers %s", how)
		kit.Figure(t, "readers %s: %d times", how, met)
	}
}

// contend takes turns at a lock. What is what its turns are counted as.
func (c *crowd) contend(
	p *process, b *book, what string, w way, acquire func(ctx context.Context) (held, error),
) {
	for p.ctx.Err() == nil {
		lock, err := acquire(p.ctx)
		if err != nil {
			nap(p.ctx)
			continue
		}
		h := &hold{p: p, weight: cmp.Or(w.weight, 1), number: numberOf(lock.Node()),
			valid: func() bool { return !p.killed.Load() && lock.Valid() }}
		if w.number != nil {
			h.number = w.number(lock)
		}
		if b.keep(p.ctx, h) {
			c.did(p, what)
		}
		if w.later {
			lock.ReleaseInBackground()
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			_ = lock.Release(ctx)
			cancel()
		}
		nap(p.ctx)
	}
}

// borrow takes one or two leases at a time.
func (c *crowd) borrow(p *process, b *book, path string) {
	s := semaphore.New(p.client, path, leases)
	for n := 1; p.ctx.Err() == nil; n = 3 - n {
		lease, err := s.Acquire(p.ctx, n)
		if err != nil {
			nap(p.ctx)
			continue
		}
		if b.keep(p.ctx, &hold{p: p, weight: n, valid: func() bool { return !p.killed.Load() && lease.Valid() }}) {
			c.did(p, b.name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		_ = lease.Release(ctx)
		cancel()
		nap(p.ctx)
	}
}

// contendJava does the same in Java.
func (c *crowd) contendJava(p *process, b *book, path string) {
	ctx, cancel := c.soon()
	defer cancel()
	lock, err := p.peer.Mutex(ctx, b.name, path)
	if err != nil {
		return // killed already
	}
	c.turnsOfJava(p, b, b.name, lock, path, 1, numberOf)
}

// turnsOfJava takes turns at a lock of Java, where a wait has to have an end.
func (c *crowd) turnsOfJava(
	p *process, b *book, what string, lock *javapeer.Lock, path string, weight int, number func(node string) int64,
) {
	for p.ctx.Err() == nil {
		node, err := lock.Acquire(context.Background(), 2*timeout)
		if err != nil {
			nap(p.ctx)
			continue
		}
		h := &hold{p: p, weight: weight, number: number(node), valid: func() bool {
			return !p.killed.Load() && c.there(path, node)
		}}
		if b.keep(p.ctx, h) {
			c.did(p, what)
		}
		_ = lock.Release(context.Background()) // its own clean-up goes on
		nap(p.ctx)
	}
}

func (c *crowd) borrowJava(p *process, b *book, path string) {
	ctx, cancel := c.soon()
	defer cancel()
	s, err := p.peer.Semaphore(ctx, b.name, path, leases)
	if err != nil {
		return
	}
	for n := 1; p.ctx.Err() == nil; n++ {
		key := fmt.Sprint("lease ", n)
		nodes, err := s.Acquire(context.Background(), key, 1+n%2, 2*timeout)
		if err != nil {
			nap(p.ctx)
			continue
		}
		h := &hold{p: p, weight: len(nodes), valid: func() bool {
			return !p.killed.Load() && c.there(path+"/leases", nodes...)
		}}
		if b.keep(p.ctx, h) {
			c.did(p, b.name)
		}
		_ = s.Return(context.Background(), key)
		nap(p.ctx)
	}
}
