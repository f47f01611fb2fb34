package barrier_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// javaLeaver plays a member of Curator for Java that has deleted its node and waits for the round's end: it waits for the node
// that sorts first, then lists again, until it finds one member or none. Its first list is late.
func javaLeaver(ctx context.Context, c *framework.Client, slow time.Duration) error {
	for {
		names, err := c.GetChildren().ForPath(ctx, path)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == "ready" })
		slices.Sort(names)
		if len(names) <= 1 {
			return c.Delete().Quietly().ForPath(ctx, path+"/ready")
		}
		there, watch, err := c.CheckExists().WithWatch().ForPath(ctx, path+"/"+names[0])
		if err != nil {
			return err
		}
		if there != nil {
			select {
			case <-watch.C:
			case <-ctx.Done():
			}
		}
		watch.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(slow)
	}
}

// A slow Java member would take two members that enter again immediately for members that have not left yet: it would wait for
// them, and they for it.
func TestJavaMembersAreGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		j := newClient(t, s)
		var doubles []*barrier.Double
		for range 3 {
			doubles = append(doubles, barrier.NewDouble(newClient(t, s), path, 4))
		}
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		again := func() (calls []*call[*barrier.Member]) {
			for _, d := range doubles {
				calls = append(calls, entering(t, ctx, d))
			}
			return calls
		}
		calls := again()
		for range 5 {
			time.Sleep(2 * time.Second)
			java(t, s, j, "java")
			for _, c := range calls {
				c.Waits()
			}
			require.NoError(t, s.Create(path+"/ready", nil))
			var members []*barrier.Member
			for _, c := range calls {
				members = append(members, c.OK())
			}
			first := leaving(t, background, members[0]).Waits()
			require.NoError(t, s.Delete(path+"/java"))
			slow := recipetest.Begin(t, func() (struct{}, error) {
				return struct{}{}, javaLeaver(ctx, j, 900*time.Millisecond)
			}).Waits()
			second := leaving(t, background, members[1]).Waits()
			leaving(t, background, members[2]).OK()
			second.OK()
			first.OK()
			calls = again()
			time.Sleep(950 * time.Millisecond)
			slow.OK()
		}
		cancel()
		for _, c := range calls {
			_, err := c.Returned()
			require.ErrorIs(t, err, context.Canceled)
		}
		clean(t, s)
	})
}

// Without members of other libraries there is no extra wait.
func TestNoDelayAmongOurselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := barrier.NewDouble(newClient(t, s), path, 2), barrier.NewDouble(newClient(t, s), path, 2)
		began := time.Now()
		for range 10 {
			first := entering(t, background, a).Waits()
			second := enter(t, b)
			out := leaving(t, background, second)
			leaving(t, background, first.OK()).OK()
			out.OK()
		}
		require.Equal(t, began, time.Now())
	})
}

// A member that waited for the opening, and is the last inside, has still seen the others' nodes.
func TestNoDelayForWhoLeavesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		d := barrier.NewDouble(newClient(t, s), path, 2)
		waiter := entering(t, background, d).Waits()
		opener := enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		last := waiter.OK()
		dead, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, opener.Leave(dead), context.Canceled)
		synctest.Wait()
		leaving(t, background, last).OK()
		again := entering(t, background, d).Waits()
		require.Len(t, children(t, s), 1, "it is in the barrier again immediately")
		enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		again.OK()
	})
}
