package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/assignment"
	"github.com/go-curator/curator/zktest/chaos"
)

func init() {
	kinds["assignment"] = newAssignmentWork
	crowded["assignment"] = true
}

// assignmentWork: all clients share items, join and leave, and change the list. No item has two owners, not even while
// the former owner's function has not returned; tokens of an item grow; its function learns of a loss; and when the
// faults are over every item gets an owner again, the member that the plan names.
type assignmentWork struct {
	path   string
	rights map[string]*chaos.Right

	mu    sync.Mutex
	again map[string]bool // items that had an owner after the faults were over
}

var (
	alwaysItems = []string{"0", "1", "2", "3"}
	moreItems   = []string{"0", "1", "2", "3", "4", "5"}
)

func newAssignmentWork(w *world) workload {
	k := &assignmentWork{path: root + "/assignment", rights: map[string]*chaos.Right{}, again: map[string]bool{}}
	for _, item := range moreItems {
		k.rights[item] = w.Exclusive("item " + item).ByClock()
	}
	return k
}

// sharing is one call of Run.
type sharing struct {
	*assignment.Assignment
	a *actor

	mu  sync.Mutex
	r   *randomly
	has map[string]bool
}

func (k *assignmentWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	list := pick(a.r, nil, alwaysItems, moreItems)
	if a.turn%1_000_000 == 1 { // at first there is no list
		list = alwaysItems
	}
	settle := below(a.r, time.Second) + time.Millisecond
	s := &sharing{Assignment: assignment.New(a.c, k.path, list, assignment.WithID(fmt.Sprint("m", a.who)),
		assignment.WithSettle(settle), assignment.WithWeight(1+a.r.IntN(3))),
		a: a, r: &randomly{r: rand.New(rand.NewPCG(a.r.Uint64(), 0))}, has: map[string]bool{}}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := false
	stop := func() { stopped = true; cancel() }
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(running, func(ctx context.Context, i assignment.Item) error { return k.work(ctx, s, i) })
	}()
	set := time.Now().Add(s.r.below(5 * time.Second))
	until := time.Now().Add(s.r.below(max(10*time.Second, 3*a.w.plan.SessionTimeout)))
	for {
		select {
		case err := <-ended:
			if stopped && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		case <-time.After(100*time.Millisecond + s.r.below(400*time.Millisecond)):
		}
		switch {
		case a.w.calm():
			if k.settled(running, s) {
				stop()
			}
		case time.Now().After(until):
			stop()
		case time.Now().After(set) && s.r.one(3):
			limited, cancel := a.within(5 * time.Second)
			done := a.timed(limited, "SetItems")
			err := s.SetItems(limited, pick(a.r, alwaysItems, moreItems))
			done()
			if err != nil && !errors.Is(err, assignment.ErrNotRunning) {
				a.expected(limited, err)
			}
			cancel()
		}
	}
}

// work owns an item until its context ends. Sometimes it returns early.
func (k *assignmentWork) work(ctx context.Context, s *sharing, item assignment.Item) error {
	a := s.a
	g := k.rights[item.Name()].Claimed(a.p, chaos.Claim{
		Until: item.Context(), Token: item.FencingToken(), Session: a.w.witness.session(item.Path()),
		Nodes: []string{item.Path()},
	})
	defer g.Returning()
	defer func() {
		if errors.Is(context.Cause(item.Context()), framework.ErrReleased) {
			a.w.violate("assignment: client %d: item %s was given back before its function has returned", a.id,
				item.Name())
		}
	}()
	a.w.Count("items", 1)
	s.note(item.Name(), true)
	defer s.note(item.Name(), false)
	var early <-chan time.Time
	if s.r.one(4) && !a.w.calm() {
		early = time.After(s.r.below(5 * time.Second))
	}
	select {
	case <-ctx.Done():
	case <-early:
		return fmt.Errorf("%w: the function of an item ends early", errNotNow)
	case <-item.Context().Done():
	}
	if item.Context().Err() != nil && ctx.Err() == nil {
		a.w.violate("assignment: client %d: the function of item %s has not heard of its loss: %v", a.id,
			item.Name(), context.Cause(item.Context()))
	}
	if s.r.one(2) && !a.w.calm() { // it is slow to return
		time.Sleep(s.r.below(2 * a.w.plan.SessionTimeout))
	}
	return ctx.Err()
}

// settled reports whether all items have had owners after the end of the faults, the plan gives each item to a present
// member, and this member has exactly the items that the plan gives to it.
func (k *assignmentWork) settled(ctx context.Context, s *sharing) bool {
	s.mu.Lock()
	has := maps.Clone(s.has)
	s.mu.Unlock()
	k.mu.Lock()
	maps.Copy(k.again, has)
	owned := true
	for _, item := range alwaysItems {
		owned = owned && k.again[item]
	}
	k.mu.Unlock()
	if !owned {
		return false
	}
	plan, err := s.Plan(ctx)
	if err != nil {
		return false
	}
	l := s.a.w.ens.Leader()
	wanted := map[string]bool{}
	for item, owner := range plan {
		if l < 0 || !s.a.w.ens.Member(l).Exists(k.path+"/members/"+owner) {
			return false
		}
		if owner == s.ID() {
			wanted[item] = true
		}
	}
	return maps.Equal(wanted, has)
}

func (s *sharing) note(item string, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[item] = true; !has {
		delete(s.has, item)
	}
}

// randomly is a random source that several goroutines can use.
type randomly struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (r *randomly) below(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return below(r.r, most)
}

func (r *randomly) one(in int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.IntN(in) == 0
}

func (k *assignmentWork) settle(w *world) {
	w.empty(k.path + "/members")
	for _, item := range slices.Sorted(maps.Keys(k.rights)) {
		w.empty(k.path + "/items/" + item)
	}
}
