package curatorprom

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-curator/curator/framework"
)

// The collector forgets the places at which a Cohort or Readers waited when their nodes are gone, and also the places
// of recipes that report no end of a wait.
func TestPlacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector()
		wait := c.Hooks("a").Wait
		known := func() int {
			synctest.Wait()
			c.ages.mu.Lock()
			defer c.ages.mu.Unlock()
			return len(c.ages.ownerless) + len(c.ages.waits)
		}
		ctx, end := context.WithCancel(t.Context())
		at := framework.Queue{Recipe: "mutex", Path: "/locks", Node: "lock-1"}
		wait(ctx, at)(nil)
		over := wait(ctx, at)
		if n := known(); n != 2 {
			t.Errorf("%d, of a place and its wait", n)
		}
		over(nil)
		end()
		if n := known(); n != 0 {
			t.Errorf("%d are left", n)
		}
		wait(ctx, at)(nil)
		wait(context.Background(), at)(nil)
		if n := known(); n != 0 {
			t.Errorf("%d are left of what had ended, or never does", n)
		}
	})
}
