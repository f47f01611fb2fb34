package growth_test

import (
	"context"
	"encoding/binary"
	"flag"
	"log/slog"
	"net"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

var (
	most  = flag.Int("most", 100, "the most of anything; each test has a limit of its own beside")
	write = flag.String("write", "", "the directory of the documents, whose measured.md gets the figures")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sizes returns 1, 10, 100 and so on; without -most only 10 and 100, which are compared.
func sizes(limit int) (all []int) {
	n := 1
	if *most == 100 {
		n = 10
	}
	for ; n <= min(limit, *most); n *= 10 {
		all = append(all, n)
	}
	return all
}

// patience returns a context that ends with the test, and is long enough for a large one.
func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*kit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// server starts a server for many clients, as services have it: with all its compilers and memory. The end of a session
// is a transaction with the paths of all its nodes, which has to fit into jute.maxbuffer.
func server(t *testing.T) *zkserver.Node {
	return zkserver.Start(t, options())
}

func options() zkserver.Options {
	o := zkserver.AsUsual()
	o.JVMFlags = []string{"-XX:TieredStopAtLevel=4", "-Xmx2g", "-Dzookeeper.preAllocSize=65536",
		"-Djute.maxbuffer=16777216"}
	return o
}

// meter counts the bytes and requests of clients.
type meter struct{ in, out, requests, dials atomic.Int64 }

// counted is a connection. One goroutine reads and one writes.
type counted struct {
	net.Conn
	m    *meter
	left int    // bytes of the current request that are not yet written
	head []byte // part of the length of the next request
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.m.in.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.m.out.Add(int64(n))
	for p = p[:n]; len(p) > 0; {
		if c.left > 0 {
			skip := min(c.left, len(p))
			c.left, p = c.left-skip, p[skip:]
			continue
		}
		c.head, p = append(c.head, p[0]), p[1:]
		if len(c.head) == 4 {
			c.left, c.head = int(binary.BigEndian.Uint32(c.head)), c.head[:0]
			c.m.requests.Add(1)
		}
	}
	return n, err
}

func (m *meter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	m.dials.Add(1)
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: conn, m: m}, nil
}

// connect creates n clients, and waits until all have a session.
func (m *meter) connect(t *testing.T, servers string, n int, timeout time.Duration) (all []*framework.Client) {
	t.Helper()
	for range n {
		c, err := framework.New(servers, framework.WithSessionTimeout(timeout), framework.WithMaxReply(4<<20),
			framework.WithDialer(m.dial), framework.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		all = append(all, c)
	}
	for _, c := range all {
		require.NoError(t, c.WaitConnected(patience(t)))
	}
	return all
}

// end closes clients, many at a time.
func end(all []*framework.Client) {
	var closing sync.WaitGroup
	turns := make(chan struct{}, 100)
	for _, c := range all {
		closing.Go(func() {
			turns <- struct{}{}
			_ = c.Close()
			<-turns
		})
	}
	closing.Wait()
}

// rest waits until there is almost no traffic any more.
func (m *meter) rest(t *testing.T) {
	t.Helper()
	for quiet := 0; quiet < 5; {
		before := m.in.Load() + m.out.Load()
		select {
		case <-time.After(100 * time.Millisecond):
		case <-patience(t).Done():
			require.FailNow(t, "the traffic does not end")
		}
		quiet++
		if m.in.Load()+m.out.Load() > before+2000 {
			quiet = 0
		}
	}
}

// live returns the bytes of the heap that are in use after garbage collection.
func live() float64 {
	for range 3 {
		runtime.GC()
	}
	return heap()
}

// heap returns the bytes of all objects, uncollected garbage included.
func heap() float64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// peak measures the heap repeatedly until stop, which returns the greatest size.
func peak() (stop func() float64) {
	done, greatest := make(chan struct{}), make(chan float64)
	go func() {
		most := 0.0
		for {
			most = max(most, heap())
			select {
			case <-done:
				greatest <- most
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() float64 {
		close(done)
		return <-greatest
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
