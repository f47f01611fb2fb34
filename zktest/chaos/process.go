package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/zktest"
)

// The causes of the end of a process's context: see [context.Cause].
var (
	ErrStopped = errors.New("chaos: the process is asked to stop")
	ErrKilled  = errors.New("chaos: the process is killed")
)

// Process is one process of the service, with its own network and clock. After a kill or a restart its function is
// called again, with a new Process. Its methods are safe for concurrent use.
type Process struct {
	w    *World
	slot *Replica
	life int // the number of processes before it
	ctx  context.Context
	end  context.CancelCauseFunc
	dead chan struct{} // closed when it is killed
	done chan struct{} // closed when its function has returned
}

// Replica is a place for a process of the service: one runs there at a time. Its methods are faults for a script (see
// [World.Script]), in addition to the plan's faults or instead of them.
type Replica struct {
	w    *World
	n    int
	name string
	host *zktest.Host
	body func(*Process)

	mu     sync.Mutex
	life   *Process
	paused chan struct{}      // nil while it runs; closed at the end of the pause
	blocks []zktest.Direction // of its network, by faults that may overlap
	clock  time.Duration      // of its wall clock, relative to the true time
	quiet  bool               // it is between a kill and its next start
	away   int                // number of faults that keep it from connecting,
	back   chan struct{}      // closed when there are none
}

// Start adds a process to the service. Its function must return within [Config.Patience] after the end of the
// process's context; if a fault killed or restarted the process, it is called again. The name, with a number,
// appears in the story. Only the scenario may call Start: the process starts when the scenario returns.
func (w *World) Start(name string, body func(p *Process)) *Replica {
	n := len(w.slots)
	s := &Replica{w: w, n: n, name: fmt.Sprintf("%s-%d", name, n), body: body}
	s.host = w.ens.NewHost(s.name)
	w.slots = append(w.slots, s)
	return s
}

// Cut closes the process's connections.
func (s *Replica) Cut() { s.host.Cut() }

// Block keeps back the packets in a direction between the process and the servers until open is called.
func (s *Replica) Block(dir zktest.Direction) (open func()) { return s.blockPackets(dir) }

// Slow delays replies and events for the process by d; 0 ends it.
func (s *Replica) Slow(d time.Duration) { s.host.Delay(d) }

// Kill makes the process die without cleaning up; start starts it again.
func (s *Replica) Kill() (start func()) { return orNoEffect(s.stopProcess(ErrKilled)) }

// Stop asks the process to stop; start starts it again.
func (s *Replica) Stop() (start func()) { return orNoEffect(s.stopProcess(ErrStopped)) }

// Pause keeps back the process's packets in both directions, and makes its calls of this package wait, until resume is
// called.
func (s *Replica) Pause() (resume func()) { return orNoEffect(s.pauseProcess()) }

// orNoEffect returns f, or a function without effect if f is nil.
func orNoEffect(f func()) func() {
	if f == nil {
		return func() {}
	}
	return f
}

func (s *Replica) startProcess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Process{w: s.w, slot: s, dead: make(chan struct{}), done: make(chan struct{})}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	if s.life != nil {
		p.life = s.life.life + 1
	}
	s.life, s.quiet = p, false
	s.host.SetDown(false)
	go func() {
		defer close(p.done)
		defer func() {
			if r := recover(); r != nil && r != errFailNow {
				p.w.Violate("panic", "%v: %v", p, r)
			}
		}()
		s.body(p)
	}()
}

// traceEntries returns the entries of the servers' traces about the process, without its reads and pings.
func (s *Replica) traceEntries() (lines []Line) {
	for _, ev := range s.host.Events() {
		text := ev.Note
		switch ev.Op {
		case "":
		case zktest.OpConnect,
			zktest.OpCreate,
			zktest.OpCreate2,
			zktest.OpCreateContainer,
			zktest.OpCreateTTL,
			zktest.OpDelete,
			zktest.OpSetData,
			zktest.OpMulti,
			zktest.OpCloseSession:
			text = strings.TrimSpace(ev.Op + " " + ev.Path)
			if ev.Parts != "" {
				text = ev.Op + " [" + ev.Parts + "]"
			}
			if ev.Err != nil {
				text += ": " + ev.Err.Error()
			}
		default:
			continue
		}
		lines = append(
			lines,
			Line{ev.At, s.name, fmt.Sprintf("[server %d, session %#x] %s", ev.Member, ev.Session, text)},
		)
	}
	return lines
}

// latestProcess returns the process that runs, or ran last.
func (s *Replica) latestProcess() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// stopProcess ends the process and returns a function that starts the next; nil if the process has been ended
// already.
func (s *Replica) stopProcess(cause error) (undo func()) {
	s.mu.Lock()
	p := s.life
	if s.quiet {
		s.mu.Unlock()
		return nil
	}
	s.quiet = true
	s.mu.Unlock()
	if cause == ErrKilled {
		s.host.SetDown(true)
		s.host.Cut()
	}
	p.end(cause)
	if cause == ErrKilled {
		close(p.dead)
	}
	return func() {
		s.w.starting.Go(func() {
			select {
			case <-p.done:
				s.startProcess()
			case <-time.After(s.w.plan.Patience + s.w.plan.Trouble): // faults may delay its stop
				s.w.failStuck(p)
			}
		})
	}
}

// pauseProcess pauses the process until resume is called. It returns nil if the process is already paused.
func (s *Replica) pauseProcess() (resume func()) {
	s.mu.Lock()
	if s.paused != nil {
		s.mu.Unlock()
		return nil
	}
	s.paused = make(chan struct{})
	s.mu.Unlock()
	open := s.blockPackets(zktest.Both)
	return func() {
		open()
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.paused)
		s.paused = nil
	}
}

// blockPackets keeps back the packets in a direction until open is called. Blocks may overlap.
func (s *Replica) blockPackets(dir zktest.Direction) (open func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.blocks)
	s.blocks = append(s.blocks, dir)
	s.setBlocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.blocks[n] = 0
		s.setBlocked()
	}
}

// isolate makes new connections wait until back is called.
func (s *Replica) isolate() (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away++; s.away == 1 {
		s.back = make(chan struct{})
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.away--; s.away == 0 {
			close(s.back)
		}
	}
}

// awaitNetwork waits until the process may connect.
func (s *Replica) awaitNetwork(ctx context.Context) error {
	s.mu.Lock()
	away, back := s.away > 0, s.back
	s.mu.Unlock()
	if !away {
		return nil
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setBlocked applies the blocks to the host's network. mu is held, so that the last change is the last applied.
func (s *Replica) setBlocked() {
	var all zktest.Direction
	for _, dir := range s.blocks {
		all |= dir
	}
	s.host.Block(all)
}

// awaitResume waits while the process is paused, unless it is killed.
func (p *Process) awaitResume() {
	for !p.isKilled() {
		p.slot.mu.Lock()
		paused := p.slot.paused
		p.slot.mu.Unlock()
		if paused == nil {
			return
		}
		select {
		case <-paused:
		case <-p.dead:
		}
	}
}

// Name returns the process's name.
func (p *Process) Name() string { return p.slot.name }

func (p *Process) String() string { return p.slot.name }

// Context ends when the process has to stop: then its function has to return. After a kill no further act of the
// process has an effect outside it.
func (p *Process) Context() context.Context { return p.ctx }

// Dial connects to a server over the process's network.
func (p *Process) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if p.isKilled() {
		return nil, ErrKilled
	}
	if err := p.slot.awaitNetwork(ctx); err != nil {
		return nil, err
	}
	return p.slot.host.Dial(ctx, network, addr)
}

// Dialer returns Dial in the form that go-zookeeper's WithDialer wants.
func (p *Process) Dialer() func(network, addr string, timeout time.Duration) (net.Conn, error) {
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return p.Dial(ctx, network, addr)
	}
}

// Now returns the time of the process's wall clock, which faults may set. time.Now returns the true time.
func (p *Process) Now() time.Time {
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	return time.Now().Add(p.slot.clock)
}

// Rand returns a source of random numbers that depends on the run's seed and the process. It is not safe for
// concurrent use.
func (p *Process) Rand() *rand.Rand {
	return rand.New(rand.NewPCG(p.w.plan.Seed, uint64(1+p.slot.n)<<32|uint64(p.life)))
}

// Logf adds a line to the run's story.
func (p *Process) Logf(format string, args ...any) { p.w.addToStory(p.Name(), format, args...) }

// Logger returns a logger for the process, such as for its client: lines at INFO and above are added to the run's
// story.
func (p *Process) Logger() *slog.Logger {
	options := &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{} // the story has its own
		}
		return a
	}}
	return slog.New(slog.NewTextHandler(storyWriter{p}, options))
}

// storyWriter writes lines of a log into the story.
type storyWriter struct{ p *Process }

func (l storyWriter) Write(line []byte) (int, error) {
	l.p.Logf("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

func (p *Process) isKilled() bool { return errors.Is(context.Cause(p.ctx), ErrKilled) }
