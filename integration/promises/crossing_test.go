package promises

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

// P2: a request of one session is executed in that session or fails. A create of an ephemeral node in flight at the end
// of its session never takes effect in the next session, whatever ended the session and whenever the network delivers
// late packets.
func TestNothingCrossesSessions(t *testing.T) {
	t.Parallel()
	const clients, rounds = 12, 8
	const short = 800 * time.Millisecond
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, MaxSessionTimeout: timeout})
	observer, _ := kit.Connected(t, node.ConnectString())
	ctx := kit.Context(t)
	var all sync.WaitGroup
	var submitted, created, crossed atomic.Int64
	for i := range clients {
		all.Go(func() {
			link := proxy.New(t, node.Addr())
			t.Cleanup(link.Heal)
			dir := fmt.Sprintf("/crossing-%d", i)
			client, session := kit.Connected(t, link.Addr(), framework.WithSessionTimeout(short),
				framework.WithDialTimeout(short/4))
			_, err := observer.Create().ForPath(ctx, dir, nil)
			if !assert.NoError(t, err) {
				return
			}
			for round := range rounds {
				c := &crossing{t: t, node: node, link: link, session: session, dir: dir}
				n, done := c.play(ctx, i+round)
				submitted.Add(n)
				created.Add(done)
				// The next session begins, and the observer reads after all writes before it.
				if session, err = client.Session(ctx); !assert.NoError(t, err) ||
					!assert.Greater(t, session.Epoch(), c.session.Epoch()) {
					return
				}
				_, err = client.SetData().ForPath(ctx, dir, nil)
				assert.NoError(t, err)
				for range 2 {
					names, err := observer.GetChildren().ForPath(ctx, dir)
					if !assert.NoError(t, err) {
						return
					}
					for _, name := range names {
						stat, err := observer.CheckExists().ForPath(ctx, dir+"/"+name)
						assert.NoError(t, err)
						if stat != nil && stat.EphemeralOwner != c.session.ID() {
							crossed.Add(1)
							t.Errorf("%s of session %#x is owned by %#x", name, c.session.ID(), stat.EphemeralOwner)
						}
					}
					time.Sleep(20 * time.Millisecond) // for late packets
				}
			}
		})
	}
	all.Wait()
	kit.Figure(t, "P2: %d ephemeral creates submitted in %d sessions that ended, %d of them confirmed in "+
		"their session, %d crossed",
		submitted.Load(), clients*rounds, created.Load(), crossed.Load())
	assert.Positive(t, created.Load())
	assert.Less(t, created.Load(), submitted.Load(),
		"some must have been cut off for the test to mean something")
}

// crossing is the end of one session under load.
type crossing struct {
	t       *testing.T
	node    *zkserver.Node
	link    *proxy.Proxy
	session *framework.Session
	dir     string
}

// play creates nodes until the session is lost.
func (c *crossing) play(ctx context.Context, kind int) (submitted, created int64) {
	view := c.session.Client()
	var work sync.WaitGroup
	var n, confirmed atomic.Int64
	note := func(err error) {
		switch {
		case err == nil:
			confirmed.Add(1)
		case !errors.Is(err, framework.ErrSessionLost) && !errors.Is(err, framework.ErrConnectionLoss) &&
			!errors.Is(err, framework.ErrNotConnected):
			assert.NoError(c.t, err)
		}
	}
	name := func(kind string) string {
		return fmt.Sprintf("%s/%d-%s-%d", c.dir, c.session.Epoch(), kind, n.Add(1))
	}
	// In the foreground with and without protection, and in the background as fast as the replies come.
	for _, create := range []framework.CreateBuilder{
		view.Create().WithMode(framework.Ephemeral),
		view.Create().WithMode(framework.EphemeralSequential).WithProtection(),
	} {
		work.Go(func() {
			for c.session.Context().Err() == nil {
				_, err := create.ForPath(ctx, name("f"), nil)
				note(err)
			}
		})
	}
	work.Go(func() {
		window := make(chan struct{}, 20)
		for c.session.Context().Err() == nil {
			select {
			case window <- struct{}{}:
				create := view.Create().WithMode(framework.Ephemeral).WithProtection()
				create.InBackground().ForPath(ctx, name("b"), nil).Then(func(_ framework.CreateResult, err error) {
					note(err)
					<-window
				})
			case <-c.session.Done():
			}
		}
		for range cap(window) { // the last replies
			select {
			case window <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	time.Sleep(rand.N(100 * time.Millisecond))
	switch timeout := c.session.Timeout(); kind % 4 {
	case 0: // ended by another client, during many requests
		kit.EndSession(c.t, c.node.Addr(), c.session.ID())
	case 1: // ended by another client while the network keeps requests, which it delivers afterwards
		c.link.Hang(proxy.ToServer)
		time.Sleep(rand.N(timeout / 4))
		kit.EndSession(c.t, c.node.Addr(), c.session.ID())
		c.link.Heal()
	case 2: // expired; the network delivers at about the time of the end
		c.link.Hang(proxy.ToServer)
		time.Sleep(timeout*3/4 + rand.N(timeout/2))
		c.link.Heal()
		c.outlive(timeout)
	default: // the same in both directions, with a cut connection
		c.link.Hang(proxy.Both)
		time.Sleep(rand.N(timeout))
		c.link.Cut()
		time.Sleep(rand.N(timeout / 2))
		c.link.Heal()
		c.outlive(timeout)
	}
	kit.Closed(c.t, "the session", c.session.Done())
	work.Wait()
	return n.Load(), confirmed.Load()
}

// outlive ends a session that has survived the fault.
func (c *crossing) outlive(timeout time.Duration) {
	select {
	case <-c.session.Done():
	case <-time.After(timeout / 4):
		c.link.Hang(proxy.Both)
		kit.Closed(c.t, "the session", c.session.Done())
		c.link.Heal()
	}
}
