package mutex_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// serveOnly makes the test program only a server, so that the server's memory is not counted.
const serveOnly = "CURATOR_BENCH_SERVE"

// serve runs a server on this machine until the end of its input. It prints its address.
func serve() {
	s, err := zktest.NewServer(zktest.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Close()
}

// server starts such a process and returns its address. The process ends with the benchmark, in any case.
func server(b testing.TB) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveOnly+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(addr)
}

// inUse returns the memory in use after garbage collection: on the heap, and by the stacks of goroutines.
func inUse() (heap, stacks float64) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

// The cost of a session, and of a waiter on top of it. The timed operation is a release that hands the lock over while 1,000
// wait, and a list of 1,000 names.
//
//	go test ./recipes/mutex -run '^$' -bench Waiters -benchtime 500x
func BenchmarkWaiters(b *testing.B) {
	const waiters = 1000
	for _, sessions := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			addr := server(b)
			heap0, stacks0 := inUse()
			clients := make([]*framework.Client, sessions)
			for i := range clients {
				c, err := framework.New(addr, framework.WithSessionTimeout(30*time.Second))
				require.NoError(b, err)
				defer c.Close()
				require.NoError(b, c.WaitConnected(background))
				clients[i] = c
			}
			heap1, stacks1 := inUse()
			ctx, stop := context.WithCancel(background)
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			granted := make(chan *mutex.Lock, waiters)
			standing := make(chan struct{}, waiters)
			stand := func(c *framework.Client) {
				var once sync.Once
				m := mutex.New(c, path, mutex.OnWait(func(mutex.Position) { once.Do(func() { standing <- struct{}{} }) }))
				all.Go(func() {
					if lock, err := m.Acquire(ctx); err == nil {
						granted <- lock
					}
				})
			}
			lock, err := mutex.New(clients[0], path).Acquire(background)
			require.NoError(b, err)
			for i := range waiters {
				stand(clients[i%sessions])
				<-standing
			}
			time.Sleep(100 * time.Millisecond) // until the watches are armed
			heap2, stacks2 := inUse()
			i := 0
			for b.Loop() {
				require.NoError(b, lock.Release(background))
				lock = <-granted
				b.StopTimer()
				stand(clients[i%sessions])
				<-standing
				i++
				b.StartTimer()
			}
			b.ReportMetric((heap1-heap0)/float64(sessions), "heap-B/session")
			b.ReportMetric((stacks1-stacks0)/float64(sessions), "stack-B/session")
			b.ReportMetric((heap2-heap1)/waiters, "heap-B/waiter")
			b.ReportMetric((stacks2-stacks1)/waiters, "stack-B/waiter")
			require.NoError(b, lock.Release(background))
		})
	}
}
