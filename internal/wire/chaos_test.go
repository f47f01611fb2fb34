package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// Random histories of watches, changes and faults. In every mix every call ends once; every watch gets an event when
// something has changed; a stopped watch gets none; no watch without a subscriber stays on the server.

type chaos struct {
	*client
	t      *testing.T
	srv    *zktest.Server
	random *rand.Rand
	live   []*heard
	calls  int
	ended  atomic.Int32
}

var chaosPaths = []string{"/x", "/x/y", "/z"}

func (c *chaos) pick() string { return chaosPaths[c.random.IntN(len(chaosPaths))] }

func (c *chaos) arm() {
	h := listen([]WatchKind{Data, Child, Persistent, Recursive}[c.random.IntN(4)], c.pick())
	if c.random.IntN(4) == 0 && c.Join(&h.Watch) {
		c.live = append(c.live, h)
		return
	}
	x, r := arming(h)
	if h.Kind == Data && c.random.IntN(2) == 0 {
		x.Op = jute.OpExists
	}
	if c.random.IntN(3) == 0 {
		x.Patience = 50 * time.Millisecond
	}
	done := x.Done
	x.Done = func(reply Reply) {
		done(reply)
		c.ended.Add(1)
	}
	c.calls++
	c.Submit(x)
	if c.random.IntN(4) == 0 {
		c.Cancel(x, ErrClosed)
	}
	if c.random.IntN(3) == 0 { // stopped before the reply
		c.Unwatch(&h.Watch)
		synctest.Wait()
		h.types()
		defer func() { synctest.Wait(); assert.Empty(c.t, h.types(), "heard after Unwatch") }()
		return
	}
	synctest.Wait()
	select {
	case reply := <-r:
		if reply.Err == nil && (reply.Code == jute.CodeOK || reply.Code == jute.CodeNoNode &&
			x.Op == jute.OpExists) {
			c.live = append(c.live, h)
		}
	default: // without a connection: the call ends later, or expires
		c.Unwatch(&h.Watch)
	}
}

func (c *chaos) change() {
	path := c.pick()
	switch c.random.IntN(4) {
	case 0:
		if c.srv.Exists(path) {
			_ = c.srv.DeleteAll(path)
		}
	default:
		if c.srv.Exists(path) {
			require.NoError(c.t, c.srv.Set(path, nil))
		}
	}
	for _, p := range chaosPaths {
		if !c.srv.Exists(p) && c.random.IntN(2) == 0 {
			require.NoError(c.t, c.srv.Create(p, nil))
		}
	}
}

func (c *chaos) fault() {
	switch c.random.IntN(5) {
	case 0:
		c.srv.Cut(0)
	case 1:
		require.NoError(c.t, c.srv.Restart())
	case 2:
		c.srv.Stop()
		c.arm()
		c.change()
		require.NoError(c.t, c.srv.Start())
	default:
		op := []string{"setWatches", "setWatches2", "getData", "addWatch", "removeWatches",
			"getChildren2"}[c.random.IntN(6)]
		c.srv.Inject(zktest.Fault{Op: op,
			Action: []zktest.Action{zktest.CutBefore, zktest.LoseReply}[c.random.IntN(2)]})
	}
}

func (c *chaos) library() {
	path := c.pick()
	go func() {
		switch path {
		case "/x":
			_, _, _, _ = c.Conn().ChildrenW(path)
		default:
			_, _, _, _ = c.Conn().ExistsW(path)
		}
	}()
	synctest.Wait()
}

func (c *chaos) leave() {
	if len(c.live) == 0 {
		return
	}
	i := c.random.IntN(len(c.live))
	h := c.live[i]
	c.live = slices.Delete(c.live, i, i+1)
	c.Unwatch(&h.Watch)
	synctest.Wait()
	h.types()
}

// calm waits until the session has a connection that lasts.
func (c *chaos) calm() {
	for range 100 {
		time.Sleep(2 * minHeldTime)
		if r := c.sync(); r.Err == nil && c.Connected() {
			return
		}
	}
	c.t.Fatal("no connection")
}

// told checks that every watch gets an event of a change.
func (c *chaos) told() {
	c.calm()
	for _, p := range chaosPaths {
		if !c.srv.Exists(p) {
			require.NoError(c.t, c.srv.Create(p, nil))
		}
	}
	for _, p := range chaosPaths {
		require.NoError(c.t, c.srv.Set(p, nil))
		require.NoError(c.t, c.srv.Create(p+"/probe", nil))
		require.NoError(c.t, c.srv.Delete(p+"/probe"))
	}
	c.calm()
	for _, h := range c.live {
		assert.NotEmpty(c.t, h.types(), "kind %d of %s has heard nothing", h.Kind, h.Path)
	}
	// used up
	c.live = slices.DeleteFunc(c.live, func(h *heard) bool { return h.Kind == Data || h.Kind == Child })
}

func TestChaos(t *testing.T) {
	for seed := range uint64(40) {
		profile := []zktest.Profile{zktest.V38, zktest.V39}[seed%2]
		cfg := zktest.Config{Profile: profile}
		t.Run(fmt.Sprint(profile, " seed ", seed), served(cfg, func(t *testing.T, srv *zktest.Server) {
			c := &chaos{client: connected(t, srv.Dial, func(cfg *Config) { cfg.Window = 3 }), t: t, srv: srv,
				random: rand.New(rand.NewPCG(seed, 0))}
			for range 5 {
				for range 30 {
					switch n := c.random.IntN(20); {
					case n < 9:
						c.arm()
					case n < 13:
						c.change()
					case n < 16:
						c.leave()
					case n < 17 && seed%4 >= 2:
						c.library()
					case n < 18:
						c.fault()
					default:
						time.Sleep(time.Duration(c.random.IntN(100)) * time.Millisecond)
					}
				}
				c.told()
			}
			for len(c.live) > 0 {
				c.leave()
			}
			c.calm()
			for _, p := range chaosPaths { // watches that are kept for the library are used up by these events
				_ = c.srv.Delete(p + "/last")
				require.NoError(t, c.srv.Set(p, nil))
				require.NoError(t, c.srv.Create(p+"/last", nil))
			}
			c.calm()
			assert.EqualValues(t, c.calls, c.ended.Load(), "every call ends once")
			// a failed request of the library's is remembered until the next connection
			for key, e := range c.watches.entries {
				assert.True(t, e.guestWatch && !e.armed && len(e.subscribers) == 0 && e.pending == 0, "%+v", key)
			}
			assert.Empty(t, srv.Watches())
			assert.NotContains(t, c.seen(), Lost)
		}))
	}
}
