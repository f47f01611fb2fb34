package zktest

import (
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

const bigNode = 500_000

// greedy asks for a big node again and again and takes nothing of what it gets.
func greedy(t *testing.T, c *raw, times int) {
	t.Helper()
	require.Equal(t, ok, c.code(jute.OpCreate, &jute.CreateRequest{Path: "/big", Data: make([]byte, bigNode), ACL: openACL}))
	for range times {
		c.send(jute.OpGetData, at("/big"))
	}
}

// heap is what lives after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAClientThatDoesNotReadIsNotReadEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 10*time.Second)
		before := heap()
		const times = 200
		greedy(t, c, times)
		synctest.Wait()
		assert.Less(t, heap()-before, int64(30<<20), "a hundred megabytes are asked for")
		assert.Less(t, s.Counts()["getData"], 30)

		other := newRaw(t, s, 10*time.Second)
		assert.Equal(t, ok, other.code(jute.OpExists, at("/big")), "the others are served")

		// Who reads again gets it all, in order.
		for range times {
			r, err := c.recv()
			require.NoError(t, err)
			assert.Greater(t, len(r.body), bigNode)
		}
		assert.Equal(t, ok, c.code(jute.OpPing))
	})
}

// A connection that is not read ends like any other: by its client, a fault, its session's expiry, the server's end.
func TestAClientThatDoesNotReadGoes(t *testing.T) {
	for name, end := range map[string]func(*Server, *raw){
		"the client closes":   func(_ *Server, c *raw) { _ = c.nc.Close() },
		"cut":                 func(s *Server, c *raw) { s.Cut(c.hello.SessionID) },
		"expired by hand":     func(s *Server, c *raw) { s.Expire(c.hello.SessionID) },
		"expires by itself":   func(*Server, *raw) { time.Sleep(15 * time.Second) },
		"the server stops":    func(s *Server, _ *raw) { s.Stop() },
		"the server restarts": func(s *Server, _ *raw) { _ = s.Restart() },
		"the server closes":   func(s *Server, _ *raw) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := RunT(t)
				c := newRaw(t, s, 10*time.Second)
				greedy(t, c, 100)
				synctest.Wait()
				end(s, c)
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				assert.Empty(t, s.conns)
				assert.Empty(t, s.running, "its goroutines")
			})
		})
	}
}

func TestAClientThatDoesNotReadOverTCP(t *testing.T) {
	s := RunT(t, Config{Listen: "127.0.0.1:0"})
	nc, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	c := &raw{t: t, nc: nc}
	require.NoError(t, c.shake(&jute.ConnectRequest{Timeout: 10000, HasReadOnly: true}))
	const times = 400
	greedy(t, c, times)
	for i := range times {
		r, err := c.recv()
		require.NoError(t, err)
		require.Greater(t, len(r.body), bigNode)
		require.Less(t, s.CountsOf(c.hello.SessionID)["getData"], i+100, "answered, but for what is on its way")
	}
	assert.Equal(t, ok, c.code(jute.OpPing))
}

// At a member what came behind a write waits for it, and is answered at once when that is done: so no more than a thousand may wait.
func TestRequestsThatWaitForTheLogAreNotReadWithoutEnd(t *testing.T) {
	bubble(t, 3, Config{PeerDelay: time.Second}, func(t *testing.T, e *Ensemble) {
		_, followers := roles(e)
		s := followers[0]
		c := newRaw(t, s, 30*time.Second)
		const times = 5000
		c.send(jute.OpCreate2, mk("/a", 0))
		for range times {
			c.send(jute.OpGetData, at("/a"))
		}
		synctest.Wait()
		assert.LessOrEqual(t, s.Counts()["getData"], parkLimit)
		for range times + 1 {
			r, err := c.recv()
			require.NoError(t, err)
			require.Equal(t, int32(0), r.Err)
		}
	})
}
