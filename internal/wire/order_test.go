package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

func TestCallsReachTheServerInTheOrderOfSubmit(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/q", 0)
		const n = 3000 // three windows
		var done []int
		var wg sync.WaitGroup
		wg.Add(n)
		for i := range n {
			x := &Call{Op: jute.OpCreate, Body: jute.Marshal(creation("/q/n-", jute.ModePersistentSequential)),
				Done: func(r Reply) {
					var path jute.PathResponse
					assert.NoError(t, jute.Unmarshal(r.Body, &path))
					assert.Equal(t, fmt.Sprintf("/q/n-%010d", i), path.Path)
					done = append(done, i) // one goroutine calls
					wg.Done()
				}}
			c.Submit(x)
		}
		wg.Wait()
		for i := range n {
			require.Equal(t, i, done[i], "replies come in order, too")
		}
	})
}

func TestCallsOfOneSubmitAreNeighbours(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		spy := spyOn(srv.Dial)
		c := connected(t, spy.Dial)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 50 {
					a, ra := call(jute.OpCreate2, creation(fmt.Sprintf("/n%d-", i), jute.ModeEphemeralSequential))
					b, rb := call(jute.OpGetChildren2, read("/"))
					c.Submit(a, b)
					first := <-ra
					second := <-rb
					assert.Equal(t, first.Connection, second.Connection)
					var made jute.Create2Response
					var list jute.Children2Response
					assert.NoError(t, jute.Unmarshal(first.Body, &made))
					assert.NoError(t, jute.Unmarshal(second.Body, &list))
					assert.Contains(t, list.Children, made.Path[1:], "a list after a create has the node")
				}
			})
		}
		wg.Wait()
		frames := spy.frames(0)
		for i, f := range frames {
			if f.op == jute.OpCreate2 {
				require.Equal(t, jute.OpGetChildren2, frames[i+1].op)
				require.Equal(t, f.xid-1, frames[i+1].xid)
			}
		}
	})
}

func TestTheWindowIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		received := make(chan jute.RequestHeader, 100)
		answer := make(chan int)
		f := scripted(t, func(_ int, p *peer) {
			p.welcome(10 * time.Second)
			go func() {
				for range answer {
					h := <-received
					p.reply(h, 1, 0)
				}
			}()
			for {
				h, _ := p.next()
				received <- h
			}
		})
		defer close(answer)
		c := connected(t, f.Dial, func(cfg *Config) { cfg.Window = 5 })
		replies := make([]chan Reply, 12)
		for i := range replies {
			replies[i] = c.start(jute.OpGetData, read("/"))
		}
		synctest.Wait()
		require.Len(t, received, 5)
		answer <- 1
		synctest.Wait()
		require.Len(t, received, 5, "one answered, one more written")
		for range 11 {
			answer <- 1
		}
		for _, r := range replies {
			require.NoError(t, (<-r).Err)
		}
	})
}

// The window grows while calls wait for it and replies come soon, and not for calls that do not wait.
func TestTheWindowGrows(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		inFlight := func(replies int) int {
			hold := srv.Inject(zktest.Fault{Op: "getData", Action: zktest.HoldReply, After: replies})
			for range 300 {
				c.start(jute.OpGetData, read("/"))
			}
			<-hold.Struck()
			synctest.Wait()
			n := c.Load().InFlight
			hold.Release()
			synctest.Wait()
			return n
		}
		for range 100 {
			answered(t, c.do(jute.OpGetData, read("/")), jute.CodeOK)
		}
		assert.Equal(t, windowAtFirst, inFlight(0))
		assert.Greater(t, inFlight(100), windowAtFirst+50)
	})
}

func TestLoadCountsAllCalls(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.lose(srv)
		for i := range 5 {
			x, _ := call(jute.OpGetData, read("/"))
			x.Urgent = i < 2
			c.Submit(x)
		}
		assert.Equal(t, Load{Queued: 5}, c.Load())
	})
}

// A server refuses an operation that it does not have before it replies to an earlier request, and closes the connection.
func TestARefusalBeforeTheReplyToAnEarlierRequest(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		p.welcome(10 * time.Second)
		if n > 1 {
			p.obey()
		}
		_, _ = p.next()
		h, _ := p.next()
		p.reply(h, -1, jute.CodeUnimplemented)
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial)
		first, second := c.start(jute.OpGetData, read("/")), c.start(jute.OpCreate2, creation("/a", 0))
		answered(t, <-second, jute.CodeUnimplemented)
		assert.ErrorIs(t, (<-first).Err, ErrConnectionLost)
		c.await(Connected)
		answered(t, c.do(jute.OpGetData, read("/")), jute.CodeOK)
	})
}

// A server closes the connection on a request above its limit: the largest of the recent requests may be the reason.
func TestTheLargestRecentRequestIsSuspected(t *testing.T) {
	for _, tc := range []struct {
		sizes []int
		after time.Duration
		want  []int
	}{
		{[]int{suspectSize - 1, 100}, 0, []int{0, 0}},
		{[]int{100, suspectSize, 200}, suspectTime, []int{0, suspectSize + 8, 0}},
		{[]int{suspectSize, suspectSize + 2, suspectSize + 1}, 0, []int{0, suspectSize + 10, 0}},
		{[]int{suspectSize}, suspectTime + 1, []int{0}},
	} {
		onScript(t, func(_ int, p *peer) {
			p.welcome(10 * time.Second)
			for range tc.sizes {
				_, _ = p.next()
			}
			time.Sleep(tc.after)
		}, func(t *testing.T, f *fake) {
			c := connected(t, f.Dial)
			var replies []chan Reply
			for _, size := range tc.sizes {
				replies = append(replies, c.start(jute.OpGetData, rawRecord(make([]byte, size))))
			}
			for i, r := range replies {
				reply := <-r
				assert.ErrorIs(t, reply.Err, ErrConnectionLost)
				assert.Equal(t, tc.want[i], reply.Suspect, "%v after %v", tc.sizes, tc.after)
			}
		})
	}
}

func TestCancelTakesBackWhatIsNotWritten(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		srv.Stop()
		c := open(t, srv.Dial)
		taken, r := call(jute.OpCreate, creation("/taken", 0))
		kept, k := call(jute.OpCreate, creation("/kept", 0))
		c.Submit(taken, kept)
		require.True(t, c.Cancel(taken, context.Canceled))
		reply := <-r
		assert.ErrorIs(t, reply.Err, ErrNotSent)
		assert.ErrorIs(t, reply.Err, context.Canceled)
		assert.True(t, reply.Sent.IsZero())
		require.False(t, c.Cancel(taken, context.Canceled), "Done is called once")
		require.NoError(t, srv.Start())
		require.NoError(t, (<-k).Err)
		assert.False(t, srv.Exists("/taken"))
		assert.True(t, srv.Exists("/kept"))
		assert.Empty(t, r)
	})
}

func TestCancelLeavesAloneWhatIsWritten(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		hold := srv.Inject(zktest.Fault{Op: "create", Action: zktest.Hold})
		x, r := call(jute.OpCreate, creation("/a", 0))
		c.Submit(x)
		<-hold.Struck()
		require.False(t, c.Cancel(x, context.Canceled))
		hold.Release()
		reply := <-r
		require.NoError(t, reply.Err)
		assert.False(t, reply.Sent.IsZero())
		require.False(t, c.Cancel(x, context.Canceled))
		assert.True(t, srv.Exists("/a"))
	})
}

func TestCallsExpireInTheQueueAlone(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		hold := srv.Inject(zktest.Fault{Op: "getData", Action: zktest.Hold})
		written, w := call(jute.OpGetData, read("/"))
		written.Patience = time.Second
		c.Submit(written)
		time.Sleep(1500 * time.Millisecond)
		hold.Release()
		require.NoError(t, (<-w).Err, "what is written does not expire")

		c.lose(srv)
		start := time.Now()
		late, l := call(jute.OpGetData, read("/"))
		late.Patience = 3 * time.Second
		early, e := call(jute.OpGetData, read("/"))
		early.Patience = time.Second
		forever, f := call(jute.OpGetData, read("/"))
		c.Submit(late, forever)
		c.Submit(early)
		assert.ErrorIs(t, (<-e).Err, ErrNotSent)
		assert.Equal(t, time.Second, time.Since(start))
		assert.ErrorIs(t, (<-l).Err, ErrNotSent)
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.NoError(t, srv.Start())
		require.NoError(t, (<-f).Err)
	})
}

func TestACallThatIsSubmittedDuringAnOutageExpires(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.lose(srv)
		time.Sleep(2 * time.Second)
		for _, patience := range []time.Duration{2 * time.Second, time.Second} {
			start := time.Now()
			x, r := call(jute.OpGetData, read("/"))
			x.Patience = patience
			c.Submit(x)
			assert.ErrorIs(t, (<-r).Err, ErrNotSent)
			assert.Equal(t, patience, time.Since(start))
		}
	})
}

// Each call in the queue has its own patience, whatever that of the calls before and after it is.
func TestPatienceOfNeighbours(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.lose(srv)
		var replies []chan Reply
		for _, patience := range []time.Duration{5 * time.Second, time.Second, 0, 5 * time.Second} {
			x, r := call(jute.OpGetData, read("/"))
			x.Patience = patience
			c.Submit(x)
			replies = append(replies, r)
		}
		ended := func() (ended []int) {
			for i, r := range replies {
				if len(r) > 0 {
					ended = append(ended, i)
				}
			}
			return ended
		}
		time.Sleep(2 * time.Second)
		assert.Equal(t, []int{1}, ended())
		time.Sleep(4 * time.Second)
		assert.Equal(t, []int{0, 1, 3}, ended())
	})
}

// The cost of a call that expires does not depend on the number of calls that wait for a connection: each used to cost a
// look at all of them.
func TestACallThatExpiresCostsTheSameInAFullQueue(t *testing.T) {
	cost := func(queued int) (least time.Duration) {
		c := open(t, func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("down") })
		for range queued {
			c.Submit(&Call{Op: jute.OpDelete, Patience: time.Hour})
		}
		least = time.Hour
		for range 20 {
			start := time.Now()
			_, down := c.expireQueued()
			least = min(least, time.Since(start))
			require.True(t, down)
		}
		return least
	}
	few, many := cost(10), cost(100_000)
	assert.Less(t, many, 50*few+50*time.Microsecond, "with ten calls it takes %v", few)
}

func TestAnExpiredCallTakesItsWatchAlong(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.lose(srv)
		h := listen(Data, "/")
		x, r := arming(h)
		x.Patience = time.Second
		c.Submit(x)
		require.ErrorIs(t, (<-r).Err, ErrNotSent)
		c.regain(srv)
		c.sync()
		assert.Empty(t, srv.Watches())
		assert.Empty(t, c.watches.entries)
	})
}

func TestATooLargeRequestIsRefusedAndItsNeighboursLive(t *testing.T) {
	const limit = 1000
	onServer(t, zktest.Config{MaxFrame: limit}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.MaxFrame = limit })
		fill := func(path string, size int) (*Call, chan Reply) {
			r := creation(path, 0)
			r.Data = nil
			r.Data = make([]byte, size-len(jute.Marshal(r))-8)
			x, replies := call(jute.OpCreate, r)
			require.Len(t, x.Body, size-8)
			return x, replies
		}
		before, b := call(jute.OpCreate, creation("/before", 0))
		exact, e := fill("/exact", limit)
		large, l := fill("/large", limit+1)
		after, a := call(jute.OpCreate, creation("/after", 0))
		c.Submit(before, exact, large, after)
		reply := <-l
		assert.ErrorIs(t, reply.Err, ErrTooLarge)
		assert.ErrorIs(t, reply.Err, ErrNotSent)
		for _, r := range []chan Reply{b, e, a} {
			reply := <-r
			answered(t, reply, jute.CodeOK)
		}
		assert.True(t, srv.Exists("/exact"))
		assert.Empty(t, c.seen(), "the connection stands")
	})
}

func TestRepliesOfAnySize(t *testing.T) {
	for _, size := range []int{0, 1, 64<<10 - 17, 64 << 10, 5 << 20, 20 << 20} {
		bubble(t, func(t *testing.T) {
			data := bytes.Repeat([]byte{7}, size)
			f := scripted(t, func(_ int, p *peer) {
				p.welcome(10 * time.Second)
				for {
					h, _ := p.next()
					p.reply(h, 1, 0, rawRecord(data))
				}
			})
			c := connected(t, f.Dial)
			r := c.do(jute.OpGetData, read("/"))
			require.NoError(t, r.Err)
			assert.True(t, bytes.Equal(data, r.Body), "%d bytes", size)
		})
	}
}

// A reply may have as many bytes as the limit, header included.
func TestAReplyAtTheLimit(t *testing.T) {
	const limit = 2 << 20
	onScript(t, func(_ int, p *peer) {
		p.welcome(10 * time.Second)
		for _, size := range []int{limit, limit + 1} {
			h, _ := p.next()
			p.reply(h, 1, 0, rawRecord(make([]byte, size-replyHeaderSize)))
		}
		p.obey()
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial, func(cfg *Config) { cfg.MaxFrame, cfg.MaxReply = 1<<20, limit })
		r := c.do(jute.OpGetData, read("/"))
		require.NoError(t, r.Err)
		assert.Len(t, r.Body, limit-replyHeaderSize)
		assert.ErrorIs(t, c.do(jute.OpGetData, read("/")).Err, ErrReplyTooLarge)
	})
	for size, tooLarge := range map[int]bool{0: false, 9: false, 10: false, 11: true} {
		b, err := readFrame(bytes.NewReader(append([]byte{0, 0, 0, byte(size)}, make([]byte, size)...)), 10)
		assert.Equal(t, tooLarge, err != nil, "in the handshake: %d bytes", size)
		assert.True(t, tooLarge || len(b) == size)
	}
}

// A connection whose large reply is coming in is kept if the reply will be complete before 9/4 of the silence have passed
// since the last reply, and before less time is left than another server needs.
func TestWhenALargeReplyIsWorthWaiting(t *testing.T) {
	const silence = 4 * time.Second // so 9 s in all
	for _, tt := range []struct {
		missing, read int           // bytes of the frame, when it was announced and since
		took          time.Duration // for the bytes read
		unreplied     time.Duration
		lapse         time.Duration // until the session lapses; another server needs 2 s
		worth         bool
	}{
		{slowFrame, slowFrame / 2, 4 * time.Second, 5 * time.Second, time.Minute, true},
		{slowFrame, slowFrame / 2, 4 * time.Second, 5*time.Second + 1, time.Minute, false},
		{slowFrame, slowFrame / 4, time.Second, 6 * time.Second, time.Minute, true},
		{slowFrame, slowFrame / 4, time.Second, 6*time.Second + 1, time.Minute, false},
		{slowFrame - 1, slowFrame / 2, time.Second, 5 * time.Second, time.Minute, false},
		{slowFrame, 0, time.Second, 5 * time.Second, time.Minute, false},
		{slowFrame, slowFrame, time.Second, 9 * time.Second, time.Minute, true},
		{slowFrame, slowFrame / 2, 4 * time.Second, 5 * time.Second, 6 * time.Second, true},
		{slowFrame, slowFrame / 2, 4 * time.Second, 5 * time.Second, 6*time.Second - 1, false},
	} {
		bubble(t, func(t *testing.T) {
			s, l := looseLink(t)
			s.validity, l.in = connectedNow(t, Servers{Standalone: true}, tt.lapse), newMeteredReader(l.conn)
			at := readClock()
			l.in.frameBegun, l.in.frameMissing, l.in.frameRead = at, tt.missing, tt.read
			at.t = at.t.Add(tt.took)
			assert.Equal(t, tt.worth, s.isWorthWaiting(l, at, silence, tt.unreplied), "%+v", tt)
			assert.True(t, s.lapsesWithin(tt.lapse))
			assert.False(t, s.lapsesWithin(tt.lapse-1))
		})
	}
}

// A reply that takes longer than the limit for a silent server does not count as silence.
func TestASlowReplyIsNoSilence(t *testing.T) {
	onScript(t, func(_ int, p *peer) {
		p.welcome(10 * time.Second)
		h, _ := p.next()
		go p.swallow()
		frame := jute.Frame(&jute.ReplyHeader{Xid: h.Xid}, rawRecord(make([]byte, 1<<20)))
		for len(frame) > 0 { // 7 s for all of it; silence is 3.3 s
			n := min(len(frame), 150<<10)
			p.raw(frame[:n])
			frame = frame[n:]
			time.Sleep(time.Second)
		}
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial)
		r := c.do(jute.OpGetData, read("/"))
		require.NoError(t, r.Err)
		assert.Len(t, r.Body, 1<<20)
	})
}

func TestXidsGoDownAndNeverRepeat(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		spy := spyOn(srv.Dial)
		c := connected(t, spy.Dial)
		c.watch(Data, "/")
		c.watch(Persistent, "/")
		for range 5 {
			for range 3 {
				c.do(jute.OpGetData, read("/"))
			}
			srv.Cut(0)
			c.await(Connected)
		}
		seen := map[int32]bool{}
		for n := range spy.links() {
			for _, f := range spy.frames(n)[1:] {
				require.Less(t, f.xid, firstXid)
				require.False(t, seen[f.xid], "xid %d again", f.xid)
				seen[f.xid] = true
			}
		}
		assert.Greater(t, len(seen), 20)
	})
}

func TestXidsWrapAroundToTheFirst(t *testing.T) {
	s := &Session{calls: pendingCalls{xid: -1 << 31}}
	l := &connection{output: outputBuffer{wake: make(chan struct{}, 1)}}
	for _, xid := range []int32{firstXid - 1, firstXid - 2} {
		c := &Call{Op: jute.OpPing}
		s.writeCall(l, c)
		assert.Equal(t, xid, c.xid)
	}
}

func TestDoneMaySubmit(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		end := make(chan Reply)
		var step func(n int) *Call
		step = func(n int) *Call {
			return &Call{Op: jute.OpGetData, Body: jute.Marshal(read("/")), Done: func(r Reply) {
				if n == 0 {
					close(end)
					return
				}
				c.Submit(step(n - 1))
			}}
		}
		c.Submit(step(100))
		<-end
	})
}

// The client learns once per server that an operation is unknown there: the server closes the connection.
func TestUnknownOperationsAreRememberedPerServer(t *testing.T) {
	onServer(t, zktest.Config{Profile: zktest.V36}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial)
		r := c.do(jute.OpWhoAmI)
		answered(t, r, jute.CodeUnimplemented)
		c.await(Disconnected)
		c.await(Connected)
		for range 3 {
			r = c.do(jute.OpWhoAmI)
			answered(t, r, jute.CodeUnimplemented)
			assert.True(t, r.Sent.IsZero())
		}
		assert.Equal(t, 1, srv.Counts()["whoAmI"])
	})
}

// Operations that are new in 3.6 cost no connection: the client first asks for the server's release. The calls keep their
// order.
func TestAnOldServerIsAskedFirst(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			onServer(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server) {
				c := connected(t, srv.Dial)
				want := map[bool]int32{true: jute.CodeUnimplemented, false: jute.CodeOK}[profile == zktest.V35]
				for range 2 {
					x, armed := arming(listen(Recursive, "/"))
					c.Submit(x)
					read := c.start(jute.OpMultiRead, &jute.MultiRequest{})
					count := c.start(jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/"})
					ephemerals := c.start(jute.OpGetEphemerals, &jute.PathRequest{Path: "/"})
					created := c.start(jute.OpCreate, creation("/a", jute.ModeEphemeralSequential))
					require.Equal(t, want, (<-armed).Code)
					require.Equal(t, want, (<-read).Code)
					require.Equal(t, want, (<-count).Code)
					require.Equal(t, want, (<-ephemerals).Code)
					require.Equal(t, jute.CodeOK, (<-created).Code)
				}
				assert.Empty(t, c.seen())
				assert.Equal(t, profile == zktest.V35, len(c.watches.entries) == 0)
				assert.Equal(t, map[bool]int{true: 1, false: 2}[profile == zktest.V39], srv.Counts()["checkWatches"])
				assert.Equal(t, 1, srv.Counts()["connect"])
			})
		})
	}
}

// A question for the release that is lost with its connection is not repeated: a server that is no ZooKeeper may close the
// connection because of it.
func TestAQuestionThatIsLostIsNotRepeated(t *testing.T) {
	onServer(t, zktest.Config{Profile: zktest.V39}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial)
		srv.Inject(zktest.Fault{Op: zktest.OpCheckWatches, Action: zktest.CutBefore})
		x, armed := arming(listen(Recursive, "/"))
		c.Submit(x)
		c.await(Disconnected)
		c.await(Connected)
		require.Equal(t, jute.CodeOK, (<-armed).Code)
		assert.Equal(t, 1, srv.Counts()["checkWatches"])
	})
}

// Operations that were queued when the connection began get the same reply as all others when the server is known not to
// have them.
func TestQueuedUnknownOperationsAreAnswered(t *testing.T) {
	onServer(t, zktest.Config{Profile: zktest.V36}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial)
		c.do(jute.OpWhoAmI)
		c.await(Disconnected)
		r := c.start(jute.OpWhoAmI)
		c.await(Connected)
		assert.Equal(t, jute.CodeUnimplemented, (<-r).Code)
	})
}

// -6 is also the reply to a TTL node if the server is configured to have none; the connection stays. A multi with such a
// create does not prove that multis are unknown.
func TestATTLInsideAMultiDoesNotTakeMultiAway(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		r := c.do(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Op: jute.OpCreateTTL,
			Request: &jute.CreateTTLRequest{CreateRequest: *creation("/t", jute.ModePersistentTTL), TTL: 1000}}}})
		require.NoError(t, r.Err)
		r = c.do(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Op: jute.OpCreate,
			Request: creation("/m", 0)}}})
		answered(t, r, jute.CodeOK)
		assert.True(t, srv.Exists("/m"))
	})
}

func TestOpenRefusesNonsense(t *testing.T) {
	for _, cfg := range []Config{{Timeout: time.Second}, {Servers: []string{"a:1"}},
		{Servers: []string{"a:1"}, Timeout: 30 * 24 * time.Hour}} {
		_, err := Open(cfg)
		assert.Error(t, err, "%+v", cfg)
	}
}

// The shortest timeout is a millisecond. A reply may be as large as the largest node that the client can write.
func TestTheLimitsOfAConfiguration(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, math.MaxInt32 * time.Millisecond} {
		cfg := Config{Servers: []string{"a:1"}, Timeout: timeout}
		require.NoError(t, cfg.applyDefaults())
		assert.Equal(t, defaultMaxReply, cfg.MaxReply)
		cfg.MaxFrame, cfg.MaxReply = 64<<20, 1
		require.NoError(t, cfg.applyDefaults())
		assert.Equal(t, 64<<20+maxPlainReply, cfg.MaxReply)
	}
}

func TestFramesAreWrittenTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := make(chan []byte, 1)
		f := scripted(t, func(_ int, p *peer) {
			p.welcome(10 * time.Second)
			buf := make([]byte, 64<<10)
			n, err := p.Read(buf) // a pipe passes on one Write at a time
			assert.NoError(t, err)
			first <- buf[:n]
			p.swallow()
		})
		c := connected(t, f.Dial)
		a, _ := call(jute.OpGetData, read("/a"))
		b, _ := call(jute.OpGetData, read("/b"))
		c.Submit(a, b)
		got := <-first
		size := 4 + binary.BigEndian.Uint32(got)
		assert.Greater(t, len(got), int(size), "both frames in one write")
	})
}

func TestNothingIsAcceptedAfterTheEnd(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		why := errors.New("why")
		c.Abort(why)
		r := c.do(jute.OpGetData, read("/"))
		assert.ErrorIs(t, r.Err, ErrNotSent)
		assert.ErrorIs(t, r.Err, ErrSessionLost)
		assert.ErrorIs(t, r.Err, why)
		assert.False(t, c.Join(&listen(Data, "/").Watch))
		assert.ErrorIs(t, c.Err(), why)
		<-c.ctx.Done()
	})
}

// The time that a call has waited for the window does not count: its patience begins with the loss of the connection.
func TestPatienceBeginsWithTheLoss(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Window = 1 })
		c.create("/a", 0)
		for range 2 {
			hold := srv.Inject(zktest.Fault{Op: "getData", Action: zktest.Hold})
			first := c.start(jute.OpGetData, read("/a"))
			<-hold.Struck()
			x, second := call(jute.OpExists, read("/a"))
			x.Patience = time.Second
			c.Submit(x)
			time.Sleep(2 * time.Second)
			c.reconnect(srv)
			hold.Release()
			require.ErrorIs(t, (<-first).Err, ErrConnectionLost)
			require.NoError(t, (<-second).Err)
			time.Sleep(2 * minHeldTime)
		}
	})
}
