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

// Why a process's context has ended, as [context.Cause] tells.
var (
	ErrStopped = errors.New("chaos: the process is asked to stop")
	ErrKilled  = errors.New("chaos: the process is killed")
)

// Process is one process of the service, with its own network and clock. When it is killed or restarted, its
// function is called again with a new one. Its methods are safe for concurrent use.
type Process struct {
	w    *World
	slot *Replica
	life int // how many came before it
	ctx  context.Context
	end  context.CancelCauseFunc
	dead chan struct{} // closed when it is killed
	done chan struct{} // closed when its function has returned
}

// Replica is a place for a process of the service: one runs there at a time. Its methods are faults by hand,
// on top of the plan's or instead, for a script (see [World.Script]).
type Replica struct {
	w    *World
	n    int
	name string
	host *zktest.Host
	body func(*Process)

	mu     sync.Mutex
	life   *Process
	paused chan struct{}      // nil while it runs; closed when it goes on
	blocks []zktest.Direction // of its network, by faults that may overlap
	clock  time.Duration      // how far its wall clock is ahead
	quiet  bool               // it is between a kill and its next start
	away   int                // faults that keep it from connecting,
	back   chan struct{}      // and what is closed when there are none any more
}

// Start adds a process to the service. Its function runs until it returns by itself, which it must, within
// [Config.Patience], when the process's context ends; it runs again if the process is killed or restarted
// by a fault. The name, with a number, appears in the story. It is for the scenario: the process starts when
// that returns.
func (w *World) Start(name string, body func(p *Process)) *Replica {
	n := len(w.slots)
	s := &Replica{w: w, n: n, name: fmt.Sprintf("%s-%d", name, n), body: body}
	s.host = w.ens.NewHost(s.name)
	w.slots = append(w.slots, s)
	return s
}

// Cut closes the process's connections.
func (s *Replica) Cut() { s.host.Cut() }

// Block keeps back what is sent in a direction between the process and the servers, until open is called.
func (s *Replica) Block(dir zktest.Direction) (open func()) { return s.block(dir) }

// Slow makes answers for the process come later by d; 0 ends it.
func (s *Replica) Slow(d time.Duration) { s.host.Delay(d) }

// Kill ends the process without a word, until start is called.
func (s *Replica) Kill() (start func()) { return or(s.stop(ErrKilled)) }

// Stop asks the process to stop, until start is called.
func (s *Replica) Stop() (start func()) { return or(s.stop(ErrStopped)) }

// Pause keeps back what the process sends and gets, and makes its calls of this package wait, until resume is
// called.
func (s *Replica) Pause() (resume func()) { return or(s.pause()) }

// or is f, or a function that does nothing if there was nothing to do.
func or(f func()) func() {
	if f == nil {
		return func() {}
	}
	return f
}

func (s *Replica) start() {
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

// seen is what the servers have seen of the process, but for what changes nothing.
func (s *Replica) seen() (lines []Line) {
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

// now is the process that runs, or ran last.
func (s *Replica) now() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// stop ends the process, unless it has been ended, and returns what starts the next.
func (s *Replica) stop(cause error) (undo func()) {
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
				s.start()
			case <-time.After(s.w.plan.Patience + s.w.plan.Trouble): // the faults may keep it from stopping
				s.w.stuck(p)
			}
		})
	}
}

// pause makes nothing leave or reach the process until the returned function is called.
func (s *Replica) pause() (resume func()) {
	s.mu.Lock()
	if s.paused != nil {
		s.mu.Unlock()
		return nil
	}
	s.paused = make(chan struct{})
	s.mu.Unlock()
	open := s.block(zktest.Both)
	return func() {
		open()
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.paused)
		s.paused = nil
	}
}

// block keeps back what is sent in a direction until open is called. Blocks may overlap.
func (s *Replica) block(dir zktest.Direction) (open func()) {
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

// present waits until the process may connect.
func (s *Replica) present(ctx context.Context) error {
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

// setBlocked makes the host's network what the blocks say. mu is held: it is the last word that counts.
func (s *Replica) setBlocked() {
	var all zktest.Direction
	for _, dir := range s.blocks {
		all |= dir
	}
	s.host.Block(all)
}

// gate waits while the process is paused, unless it is killed.
func (p *Process) gate() {
	for !p.killed() {
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

// Context ends when the process is to stop: its function has to return then. After a kill nothing that the
// process still does reaches anybody.
func (p *Process) Context() context.Context { return p.ctx }

// Dial connects to a server over the process's network.
func (p *Process) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if p.killed() {
		return nil, ErrKilled
	}
	if err := p.slot.present(ctx); err != nil {
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

// Now is the process's wall clock, which faults may set. time.Now is the true one.
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
func (p *Process) Logf(format string, args ...any) { p.w.tell(p.Name(), format, args...) }

// Logger is for the process's client, or another part of the process: what it logs at INFO and above is in
// the run's story.
func (p *Process) Logger() *slog.Logger {
	options := &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{} // the story has its own
		}
		return a
	}}
	return slog.New(slog.NewTextHandler(logged{p}, options))
}

// logged writes lines of a log into the story.
type logged struct{ p *Process }

func (l logged) Write(line []byte) (int, error) {
	l.p.Logf("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

func (p *Process) killed() bool { return errors.Is(context.Cause(p.ctx), ErrKilled) }
