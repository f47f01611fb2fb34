// Command load is a process whose contenders do the work of a bench.Job through one of the Go clients. It
// reads commands line by line, and answers each with one line of JSON:
//
//	start JOB    connects and begins; the job as JSON
//	mark         what happened since the mark before: a bench.Sample
//	stop         ends the work and the sessions
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-curator/curator/integration/bench"
)

var (
	peer = flag.String("peer", "curator-go",
		"curator-go, unawaited (curator-go that does not wait for releases), go-zookeeper, "+
			"floor (no more requests than needed) or piped (and no more waits)")
	server = flag.String("server", "", "host:port")
)

// turn takes one turn: it calls held while it holds.
type turn func(ctx context.Context, held func()) error

// client makes the turns of a job's contenders.
type client interface {
	turns(ctx context.Context, job bench.Job) ([]turn, error)
	close() error
}

var clients = map[string]func(l *load) client{
	"curator-go":   func(l *load) client { return &ours{added: l.took} },
	"unawaited":    func(l *load) client { return &ours{added: l.took, unawaited: true} },
	"go-zookeeper": func(*load) client { return &library{} },
	"floor":        func(*load) client { return &bare{} },
	"piped":        func(*load) client { return &bare{piped: true} },
}

func main() {
	flag.Parse()
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func serve() error {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	var running *load
	for lines.Scan() {
		command, rest, _ := strings.Cut(lines.Text(), " ")
		var answer any = "ok"
		var err error
		switch {
		case command == "start":
			running, err = start(rest)
		case running == nil:
			err = errors.New("nothing was started")
		case command == "mark":
			answer, err = running.mark()
		case command == "stop":
			err = running.stop()
			running = nil
		default:
			err = fmt.Errorf("there is no command %q", command)
		}
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// load is a job that runs.
type load struct {
	job    bench.Job
	client client
	cancel context.CancelFunc
	ended  sync.WaitGroup

	cycles   []atomic.Int64 // by contender
	holders  atomic.Int64
	overlaps atomic.Int64
	released atomic.Int64 // when the latest release began, since begin

	mu        sync.Mutex
	handOvers []time.Duration
	err       error // of the first contender that failed

	begin  time.Time
	before state // at the mark before
	counts []int64
}

// state is compared between marks.
type state struct {
	at             time.Time
	cpu            time.Duration
	bytes, objects uint64
}

func start(text string) (*load, error) {
	l := &load{begin: time.Now()}
	if err := json.Unmarshal([]byte(text), &l.job); err != nil {
		return nil, err
	}
	open := clients[*peer]
	if open == nil {
		return nil, fmt.Errorf("there is no peer %q", *peer)
	}
	l.client = open(l)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	turns, err := l.client.turns(ctx, l.job)
	if err != nil {
		cancel()
		return nil, errors.Join(err, l.client.close())
	}
	l.cycles, l.counts = make([]atomic.Int64, len(turns)), make([]int64, len(turns))
	l.before = now()
	for i, take := range turns {
		l.ended.Go(func() { l.contend(ctx, take, &l.cycles[i]) })
	}
	return l, nil
}

func (l *load) contend(ctx context.Context, take turn, cycles *atomic.Int64) {
	for ctx.Err() == nil {
		if err := take(ctx, l.held); err != nil {
			if ctx.Err() == nil {
				l.mu.Lock()
				l.err = errors.Join(l.err, err)
				l.mu.Unlock()
			}
			return
		}
		cycles.Add(1)
	}
}

func (l *load) held() {
	if last := l.released.Load(); last != 0 {
		l.took(time.Since(l.begin) - time.Duration(last))
	}
	if l.holders.Add(1) > int64(l.job.Leases) {
		l.overlaps.Add(1)
	}
	if l.job.Hold > 0 {
		sleep(l.job.Hold)
	}
	l.holders.Add(-1)
	l.released.Store(int64(time.Since(l.begin)))
}

// took records how long a hand-over or an addition took.
func (l *load) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOvers = append(l.handOvers, d)
}

// sleep sleeps precisely. Go's own timers add up to a millisecond in an idle process.
func sleep(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for errors.Is(syscall.Nanosleep(&left, &left), syscall.EINTR) {
	}
}

func (l *load) mark() (*bench.Sample, error) {
	after := now()
	s := &bench.Sample{Took: after.at.Sub(l.before.at), CPU: after.cpu - l.before.cpu,
		Bytes: int64(after.bytes - l.before.bytes), Objects: int64(after.objects - l.before.objects),
		Overlaps: l.overlaps.Swap(0)}
	l.before = after
	for i := range l.cycles {
		all := l.cycles[i].Load()
		mine := all - l.counts[i]
		l.counts[i] = all
		s.Cycles += mine
		s.Fastest = max(s.Fastest, mine)
		if i == 0 || mine < s.Slowest {
			s.Slowest = mine
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.handOvers)
	for i := 0; i < len(l.handOvers); i += max(1, len(l.handOvers)/1000) {
		s.HandOvers = append(s.HandOvers, l.handOvers[i])
	}
	if n := len(l.handOvers); n > 0 {
		s.HandOvers = append(s.HandOvers, l.handOvers[n-1])
	}
	l.handOvers = l.handOvers[:0]
	return s, l.err
}

func (l *load) stop() error {
	l.cancel()
	l.ended.Wait()
	return errors.Join(l.err, l.client.close())
}

func now() state {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it has no way to fail
	}
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return state{time.Now(), cpu, memory.TotalAlloc, memory.Mallocs}
}
