package assignment_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/assignment"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	path    = "/shards"
	members = path + "/members"
	items   = path + "/items"
	settle  = 500 * time.Millisecond
)

var background = context.Background()

// world records which member has which item, as its members' functions see it. It fails the test if two members have an item, or
// if a token does not grow.
type world struct {
	t *testing.T
	s *zktest.Server

	mu     sync.Mutex
	has    map[string]*owned
	tokens map[string]int64
	moved  int
}

type owned struct {
	by   string
	ctx  context.Context
	item assignment.Item
}

// story runs play in a bubble, with a server.
func story(t *testing.T, play func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		play(t, &world{t: t, s: zktest.RunT(t), has: map[string]*owned{}, tokens: map[string]int64{}})
	})
}

// process is a member with its client.
type process struct {
	w     *world
	c     *framework.Client
	a     *assignment.Assignment
	stop  context.CancelFunc
	run   *recipetest.Call[struct{}]
	work  assignment.Func // called while the member has the item; nil: wait until its context ends
	ended []error         // the causes of its contexts' ends; guarded by w.mu
}

// start runs a member with this work; if it is nil, the member waits until its contexts end.
func (w *world) start(id string, list []string, work assignment.Func, opts ...assignment.Option) *process {
	w.t.Helper()
	p := &process{w: w, c: recipetest.Client(w.t, w.s), work: work}
	p.begin(id, list, opts...)
	return p
}

// begin runs the member with its existing client.
func (p *process) begin(id string, list []string, opts ...assignment.Option) {
	p.a = assignment.New(p.c, path, list, append([]assignment.Option{assignment.WithID(id)}, opts...)...)
	ctx, cancel := context.WithCancel(background)
	p.stop = cancel
	p.run = recipetest.Begin(p.w.t, func() (struct{}, error) { return struct{}{}, p.a.Run(ctx, p.has) })
	p.w.t.Cleanup(func() { cancel(); <-p.run.Done })
}

func (p *process) has(ctx context.Context, item assignment.Item) error {
	w, me := p.w, &owned{p.a.ID(), ctx, item}
	w.mu.Lock()
	if other := w.has[item.Name()]; other != nil && other.ctx.Err() == nil {
		w.t.Errorf("%s gets %s, which %s has", me.by, item.Name(), other.by)
	}
	if last := w.tokens[item.Name()]; item.FencingToken() <= last {
		w.t.Errorf("%s: the token %d after %d", item.Name(), item.FencingToken(), last)
	}
	w.has[item.Name()], w.tokens[item.Name()] = me, item.FencingToken()
	w.moved++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.has[item.Name()] == me {
			delete(w.has, item.Name())
		}
		p.ended = append(p.ended, context.Cause(ctx))
	}()
	if p.work != nil {
		return p.work(ctx, item)
	}
	<-ctx.Done()
	return ctx.Err()
}

// owners returns the present owners: "1=a 2=b".
func (w *world) owners() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, item := range slices.Sorted(maps.Keys(w.has)) {
		if w.has[item].ctx.Err() == nil {
			all = append(all, item+"="+w.has[item].by)
		}
	}
	return strings.Join(all, " ")
}

// after asserts that the owners are as wanted after d, and not earlier.
func (w *world) after(d time.Duration, want string) {
	w.t.Helper()
	if d > time.Millisecond {
		time.Sleep(d - time.Millisecond)
		require.NotEqual(w.t, want, w.owners(), "before %v have passed", d)
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Millisecond)
	require.Equal(w.t, want, w.owners(), "after %v", d)
}

// leave ends Run, and waits for its return.
func (p *process) leave() {
	p.w.t.Helper()
	p.stop()
	_, err := p.run.Returned()
	require.ErrorIs(p.w.t, err, context.Canceled)
}

// item returns the record of an item that a member has.
func (w *world) item(name string) *owned {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NotNil(w.t, w.has[name], name)
	return w.has[name]
}

func (w *world) moves() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved
}

// clean asserts that only the plan is left after all members have left.
func (w *world) clean(list ...string) {
	w.t.Helper()
	time.Sleep(time.Second)
	dirs := []string{members}
	for _, item := range list {
		dirs = append(dirs, items+"/"+item)
	}
	recipetest.Clean(w.t, w.s, dirs...)
}

func numbers(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(i+1))
	}
	return list
}

var errWork = errors.New("the work has failed")
