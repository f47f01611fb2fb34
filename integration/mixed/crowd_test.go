package mixed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/retry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	tick    = 200 * time.Millisecond
	timeout = 4 * time.Second
	// patience is for what must happen at last: a Java process that was killed has to start again before.
	patience = 4 * kit.Patience
)

// lasting is how long things go wrong.
func lasting(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CURATOR_TEST_LASTING")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "CURATOR_TEST_LASTING")
	return d
}

func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("CURATOR_TEST_SEED"); text != "" {
		var err error
		s, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CURATOR_TEST_SEED")
	}
	t.Logf("CURATOR_TEST_SEED=%d", s)
	return s
}

// process is a process of either language, and the way by which it reaches the server.
type process struct {
	name   string
	client *framework.Client // of Go
	peer   *javapeer.Peer    // of Java
	way    *proxy.Proxy
	// ctx ends when it is killed, or is to stop.
	ctx  context.Context
	stop context.CancelFunc
	done chan struct{} // closed when its work has ended
	// killed says that nothing that it has counts any more.
	killed atomic.Bool
}

// job is what a process does until its ctx ends. What it calls with that may hang: for the rest it takes c.soon.
type job func(c *crowd, p *process)

// crowd are the processes at one server.
type crowd struct {
	t       *testing.T
	node    *zkserver.Node
	watcher *framework.Client // whose connection is never cut
	golang  job
	java    job
	exact   bool     // nothing goes wrong with Java's processes, nor with the server
	dirs    []string // that are there before everybody, and stay when they are empty

	ctx      context.Context // ends when all are to stop
	stop     context.CancelFunc
	all      []*process
	rounds   sync.Map // by who and what: *atomic.Int64
	troubles atomic.Int64
	counts   map[string]int
}

// gather starts a server and so many processes.
func gather(t *testing.T, c *crowd, golang, java int) *crowd {
	t.Helper()
	c.t, c.counts = t, map[string]int{}
	c.node = zkserver.Start(t, zkserver.Options{TickTime: tick, ContainerCheckInterval: 500 * time.Millisecond})
	c.watcher, _ = kit.Connected(t, c.node.ConnectString(), framework.WithSessionTimeout(timeout), stubborn)
	for _, dir := range c.dirs {
		_, err := c.watcher.Create().CreatingParentsIfNeeded().ForPath(kit.Context(t), dir, nil)
		require.NoError(t, err)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		for _, p := range c.all {
			c.kill(p)
		}
		c.stop()
	})
	for i := range golang + java {
		p := &process{name: fmt.Sprint("go-", i)}
		if i >= golang {
			p.name = fmt.Sprint("java-", i-golang)
		}
		c.all = append(c.all, c.begin(p.name))
	}
	return c
}

var stubborn = framework.WithRetry(retry.ExponentialBackoff{Base: 5 * time.Millisecond, Retries: 100})

func (p *process) isJava() bool { return p.name[0] == 'j' }

// begin starts a process and its work.
func (c *crowd) begin(name string) *process {
	c.t.Helper()
	p := &process{name: name, done: make(chan struct{}), way: proxy.New(c.t, c.node.ConnectString())}
	work := c.golang
	p.ctx, p.stop = context.WithCancel(c.ctx)
	if p.isJava() {
		work = c.java
		p.peer = javapeer.Start(c.t)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(c.t, p.peer.Connect(ctx, p.way.Addr(), timeout))
	} else {
		p.client, _ = kit.Connected(c.t, p.way.Addr(), framework.WithSessionTimeout(timeout), stubborn)
	}
	go func() {
		defer close(p.done)
		work(c, p)
	}()
	return p
}

// kill ends a process as SIGKILL does.
func (c *crowd) kill(p *process) {
	p.killed.Store(true)
	if p.isJava() {
		p.peer.Kill()
	} else {
		p.way.Cut()
	}
	p.stop()
	<-p.done
	if p.client != nil {
		_ = p.client.Close()
	}
}

// soon is a context for what must not hang, also after the end of the process's own.
func (c *crowd) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// did counts a round of somebody at something.
func (c *crowd) did(p *process, what string) { c.count(p.name + " " + what).Add(1) }

func (c *crowd) count(key string) *atomic.Int64 {
	n, _ := c.rounds.LoadOrStore(key, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// total is how many rounds there were of something.
func (c *crowd) total(language, what string) (n int64) {
	c.rounds.Range(func(key, value any) bool {
		k := key.(string)
		if len(k) > len(what) && k[len(k)-len(what):] == what && k[:len(language)] == language {
			n += value.(*atomic.Int64).Load()
		}
		return true
	})
	return n
}

// trouble makes trouble for a while. It belongs to the test's goroutine.
func (c *crowd) trouble() {
	c.t.Helper()
	r := rand.New(rand.NewPCG(seed(c.t), 0))
	began, while := time.Now(), lasting(c.t)
	restart := began.Add(while / 4)
	for time.Since(began) < while && !c.t.Failed() {
		time.Sleep(100*time.Millisecond + time.Duration(r.Int64N(int64(400*time.Millisecond))))
		i := r.IntN(len(c.all))
		p := c.all[i]
		what := "cut"
		switch n := r.IntN(20); {
		case n == 0:
			what = "kill"
		case n <= 1:
			what = "expire"
		case n <= 5:
			what = "hang"
		}
		if p.isJava() && c.exact {
			continue
		}
		if time.Now().After(restart) && !c.exact {
			what, restart = "server killed", time.Now().Add(while/4)
		}
		c.troubles.Add(1)
		c.counts[what]++
		c.t.Logf("%8v %s: %s", time.Since(began).Round(time.Millisecond), what, p.name)
		switch what {
		case "kill":
			c.kill(p)
			c.all[i] = c.begin(p.name)
		case "expire":
			p.way.Hang(proxy.Both)
			time.Sleep(timeout + 3*tick)
			p.way.Heal()
		case "hang":
			p.way.Hang(proxy.Both)
			time.Sleep(time.Duration(r.Int64N(int64(timeout / 3))))
			p.way.Heal()
		case "cut":
			p.way.Cut()
			p.way.Heal()
		case "server killed":
			c.node.Kill()
			c.node.Start()
		}
	}
}

// goOn waits until all of those whose names begin so have done so many more rounds of everything.
func (c *crowd) goOn(who string, works []string, rounds int64) {
	c.t.Helper()
	type target struct {
		key  string
		want int64
	}
	var waiting []target
	for _, p := range c.all {
		for _, what := range works {
			if !strings.HasPrefix(p.name, who) {
				continue
			}
			key := p.name + " " + what
			waiting = append(waiting, target{key, c.count(key).Load() + rounds})
		}
	}
	for end := time.Now().Add(patience); len(waiting) > 0; time.Sleep(10 * time.Millisecond) {
		if w := waiting[len(waiting)-1]; c.count(w.key).Load() >= w.want {
			waiting = waiting[:len(waiting)-1]
			continue
		}
		require.False(c.t, time.Now().After(end), "nobody is to wait for ever, and these do not go on: %v", waiting)
	}
}

// finish has all stop, and waits for it; their processes go on.
func (c *crowd) finish() {
	c.stop()
	for _, p := range c.all {
		<-p.done
	}
}

// quit ends Java's processes in order, and their sessions.
func (c *crowd) quit() {
	c.t.Helper()
	for _, p := range c.all {
		if !p.isJava() || p.killed.Swap(true) {
			continue
		}
		p.stop()
		<-p.done
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		if err := p.peer.Quit(ctx); err != nil {
			c.t.Logf("%s does not end: killed: %v", p.name, err)
		}
		cancel()
	}
}

// leave ends all processes in order.
func (c *crowd) leave() {
	c.t.Helper()
	c.quit()
	for _, p := range c.all {
		if p.isJava() {
			continue
		}
		kit.Soon(c.t, "no clean-up is pending", func() bool { return p.client.PendingCleanups() == 0 })
		require.NoError(c.t, p.client.Close())
	}
}

// empty waits until nothing is left in a directory.
func (c *crowd) empty(path string) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		names, err := c.watcher.GetChildren().ForPath(kit.Context(c.t), path)
		if len(names) == 0 {
			return // or it is gone itself
		}
		require.False(c.t, time.Now().After(end), "left in %s: %v (%v)", path, names, err)
	}
}

// nap is the time between two rounds.
func nap(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(30 * time.Millisecond)):
	}
}
