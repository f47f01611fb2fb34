package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/zktest/chaos"
)

// Claims that exclude one another, and tokens that may come after one another.
func TestClaims(t *testing.T) {
	quiet := chaos.Config{Count: 1, Every: 1000 * time.Hour, Trouble: 10 * time.Second, Shrink: -1}
	reader := func(token int64) chaos.Claim { return chaos.Claim{Shared: true, Token: token} }
	writer := func(token int64) chaos.Claim { return chaos.Claim{Token: token} }
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		limit  int
		claims []chaos.Claim
		wrong  string // "": no violation
	}{
		"readers":                   {1, []chaos.Claim{reader(3), reader(5), reader(4)}, ""},
		"a writer beside a reader":  {1, []chaos.Claim{reader(3), writer(4)}, "has it, and so has p-0"},
		"a reader beside a writer":  {1, []chaos.Claim{writer(3), reader(4)}, "has it, and so has p-0"},
		"a writer that reads":       {1, []chaos.Claim{{Owner: "a", Token: 3}, {Owner: "a", Shared: true, Token: 3}}, ""},
		"a reader with an old one":  {1, []chaos.Claim{{Token: 3, Until: ended}, reader(2)}, ""},
		"leases":                    {3, []chaos.Claim{{Leases: 2}, {}}, ""},
		"too many leases":           {3, []chaos.Claim{{Leases: 2}, {Leases: 2}}, "has it, and so has p-0"},
		"too many at once":          {3, []chaos.Claim{{Leases: 4}}, "has it, and so "},
		"one hold, twice":           {1, []chaos.Claim{{Token: 3, Nodes: []string{"/a"}}, {Token: 3, Nodes: []string{"/a"}}}, ""},
		"two holds with one token":  {1, []chaos.Claim{{Token: 3, Owner: "a", Nodes: []string{"/a"}}, {Token: 3, Owner: "a", Nodes: []string{"/b"}}}, "with token 3, and there was 3 before"},
		"a reader behind a writer":  {1, []chaos.Claim{{Owner: "a", Token: 3}, {Owner: "a", Shared: true, Token: 2}}, "with token 2, and there was 3 before"},
		"a writer behind a reader":  {1, []chaos.Claim{{Owner: "a", Shared: true, Token: 3}, {Owner: "a", Token: 2}}, "with token 2, and there was 3 before"},
		"lost when it is told of":   {1, []chaos.Claim{writer(4), {Token: 3, Until: ended}}, ""},
		"a reader behind a reader":  {1, []chaos.Claim{reader(3), reader(2)}, ""},
		"two writers of two owners": {1, []chaos.Claim{{Owner: "a", Token: 3}, {Owner: "b", Token: 4}}, "has it, and so has p-0"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			scenario := func(w *chaos.World) {
				r := w.Shared("right", c.limit)
				process(w, "p", func(p *chaos.Process) {
					for _, claim := range c.claims {
						r.Claimed(p, claim)
					}
				})
			}
			if c.wrong == "" {
				chaos.Test(t, scenario, quiet)
				return
			}
			v := found(t, scenario, quiet)
			assert.Equal(t, "right", v.Check)
			assert.Contains(t, v.Text, c.wrong)
		})
	}
}

// An administrator deletes the node of a right. Its holder may use the right for a while, and not longer; a waiter
// whose node was deleted may not use it at all.
func TestAClaimThatIsTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		deleted int           // of three nodes in a line
		claimed int           // the node with which a process then claims the right
		after   time.Duration // how long after that another process claims
		wrong   string
	}{
		"it cannot know yet":      {0, 0, 5 * time.Second, ""},
		"it must know":            {0, 0, time.Minute, "has it, and so has p-0"},
		"it never had it":         {1, 1, 5 * time.Second, "its node was deleted while another was ahead"},
		"a node that is not gone": {0, 2, 5 * time.Second, "has it, and so has p-0"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			scenario := func(w *chaos.World) {
				r := w.Exclusive("right")
				process(w, "p", func(p *chaos.Process) {
					client := connect(w, p)
					defer client.Close()
					nodes := createNodes(w, p, client, 3)
					time.Sleep(21 * time.Second)
					r.Claimed(p, chaos.Claim{Nodes: nodes[c.claimed : c.claimed+1]})
					time.Sleep(c.after)
					r.Claimed(p, chaos.Claim{Nodes: []string{"/another"}})
					<-p.Context().Done()
				})
			}
			cfg := with(chaos.Fault{Kind: chaos.DeleteNode, Times: c.deleted, At: 20 * time.Second})
			if cfg.Count = 1; c.wrong == "" {
				chaos.Test(t, scenario, cfg)
				return
			}
			assert.Contains(t, found(t, scenario, cfg).Text, c.wrong)
		})
	}
}

// A paused holder cannot know that it has lost the right, unless by its clock.
func TestAClaimOfAPausedProcess(t *testing.T) {
	for _, byClock := range []bool{false, true} {
		t.Run(fmt.Sprint("by its clock ", byClock), func(t *testing.T) {
			scenario := func(w *chaos.World) {
				r := w.Exclusive("right")
				if byClock {
					r.ByClock()
				}
				process(w, "p", func(p *chaos.Process) { r.Granted(p) })
				process(w, "p", func(p *chaos.Process) {
					time.Sleep(25 * time.Second)
					r.Granted(p).Done()
				})
			}
			cfg := with(chaos.Fault{Kind: chaos.PauseProcess, At: 20 * time.Second, Lasts: 10 * time.Second})
			if cfg.Count = 1; !byClock {
				chaos.Test(t, scenario, cfg)
				return
			}
			assert.Contains(t, found(t, scenario, cfg).Text, "has it, and so has p-0")
		})
	}
}

// The end of a right during its release is not a loss.
func TestReturning(t *testing.T) {
	chaos.Test(t, func(w *chaos.World) {
		r := w.Exclusive("right")
		process(w, "p", func(p *chaos.Process) {
			ctx, cancel := context.WithCancel(context.Background())
			g := r.Granted(p, ctx)
			g.Returning()
			cancel()
			time.Sleep(time.Second)
			r.Granted(p).Done()
		})
	}, chaos.Config{Count: 1, Every: 1000 * time.Hour})
}
