// Package javapeer runs Java Curator in a separate process and lets a Go test control it, so that both can meet at
// the same nodes.
//
// A peer is one Java process with one client. It replies to a request when it has executed it; other requests run at
// the same time. The Java side is in integration/java; a new recipe is a class of commands there and a file of
// methods on Call here.
package javapeer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/internal/jvm"
)

// ErrTimeout is the answer to a wait that came to nothing, as in an acquire with a
// time limit.
var ErrTimeout = errors.New("javapeer: timeout")

// ErrEnded is wrapped by the errors of a peer whose process has ended.
var ErrEnded = errors.New("javapeer: the process has ended")

// Error is an exception in the Java program.
type Error struct {
	Class   string // as in org.apache.zookeeper.KeeperException$NoNodeException
	Message string
}

func (e *Error) Error() string { return "javapeer: " + e.Class + ": " + e.Message }

// Peer is a Java process. Its methods are safe for concurrent use, except Kill
// and Quit, which belong to the goroutine of the test.
type Peer struct {
	process *child.Process
	reader  sync.WaitGroup
	log     string

	send sync.Mutex // one line at a time
	in   *os.File

	mu      sync.Mutex
	next    int
	pending map[string]chan reply
	ended   bool
	events  []Event
	more    chan struct{} // closed and replaced with each event
}

type reply struct {
	words []string
	err   error
}

// Start starts a peer that is not connected yet. It ends with the test. The program's stderr is shown if the test
// fails. Flags of the JVM come after the flags for a fast start, and so override them.
func Start(t testing.TB, flags ...string) *Peer {
	t.Helper()
	p, err := start(t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			text, err := os.ReadFile(p.log)
			t.Logf("stderr of Java process %d: %v\n%s", p.process.Pid(), err, text[max(0, len(text)-16<<10):])
		}
	})
	return p
}

func start(dir string, flags ...string) (*Peer, error) {
	classes, err := compiled()
	if err != nil {
		return nil, err
	}
	java, err := jvm.Java()
	if err != nil {
		return nil, err
	}
	classpath, err := jvm.CuratorClasspath()
	if err != nil {
		return nil, err
	}
	args := append(append(jvm.FastStart(), flags...), "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.showShortLogName=true", "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper=warn",
		"-cp", classes+":"+classpath, "Peer")
	cmd := exec.Command(java, args...)

	p := &Peer{log: filepath.Join(dir, "stderr"), pending: map[string]chan reply{}, more: make(chan struct{})}
	stderr, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	// Own pipes: package exec would close its pipes when the process ends, with its last words in them.
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if p.process, err = child.Start(cmd); err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	p.in = in
	p.reader.Go(func() { p.read(out) })
	return p, nil
}

// Call sends a command and waits for the words of its reply. The error is ErrTimeout, an *Error, an error that wraps
// ErrEnded, or the error of ctx. When ctx ends the Java side finishes its work, and its reply is dropped.
func (p *Peer) Call(ctx context.Context, command string, arguments ...string) ([]string, error) {
	return p.Go(command, arguments...)(ctx)
}

// Go sends a command and does not wait: the function it returns does, as Call would; call it once at most. Commands
// that run on the same thread of the peer run in the order of their sending.
func (p *Peer) Go(command string, arguments ...string) (wait func(ctx context.Context) ([]string, error)) {
	done := make(chan reply, 1)
	p.mu.Lock()
	p.next++
	id := strconv.Itoa(p.next)
	ended := p.ended
	p.pending[id] = done
	p.mu.Unlock()
	if ended {
		return func(context.Context) ([]string, error) { return nil, p.endedErr() }
	}
	line := id + " " + command
	for _, argument := range arguments {
		line += " " + url.QueryEscape(argument)
	}
	p.send.Lock()
	_, err := io.WriteString(p.in, line+"\n")
	p.send.Unlock()
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		return func(context.Context) ([]string, error) { return nil, err }
	}
	return func(ctx context.Context) ([]string, error) {
		select {
		case r := <-done:
			return r.words, r.err
		case <-ctx.Done():
			p.mu.Lock()
			delete(p.pending, id)
			p.mu.Unlock()
			return nil, fmt.Errorf("javapeer: %s: %w", command, ctx.Err())
		}
	}
}

// Pid is the process id.
func (p *Peer) Pid() int { return p.process.Pid() }

// Quit closes the queues, waits for their consumers, closes the client, and with
// it the session, and ends the process.
func (p *Peer) Quit(ctx context.Context) error {
	_, err := p.Call(ctx, "quit")
	if err == nil {
		select {
		case <-p.process.Done():
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	p.Kill()
	return err
}

// Kill ends the process immediately, as a crash does; the session is left to expire. It returns when the process has
// ended. It may be called more than once.
func (p *Peer) Kill() {
	p.process.Kill()
	p.reader.Wait()
	p.send.Lock()
	defer p.send.Unlock()
	p.in.Close()
}

// Pause stops the process with SIGSTOP, as a long garbage collection does.
func (p *Peer) Pause() error { return p.process.Signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (p *Peer) Resume() error { return p.process.Signal(syscall.SIGCONT) }

// read reads the process's output until it ends.
func (p *Peer) read(out *os.File) {
	defer out.Close()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		p.line(lines.Text())
	}
	<-p.process.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for id, done := range p.pending {
		done <- reply{err: p.endedErr()}
		delete(p.pending, id)
	}
	close(p.more)
	p.more = make(chan struct{})
}

// line is "ID ok WORD...", "ID timeout", "ID error CLASS MESSAGE" or
// "! NAME WORD...".
func (p *Peer) line(line string) {
	words := strings.Split(line, " ")
	for i, word := range words {
		if decoded, err := url.QueryUnescape(word); err == nil {
			words[i] = decoded
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if words[0] == "!" && len(words) > 1 {
		p.events = append(p.events, Event{time.Now(), words[1], words[2:]})
		close(p.more)
		p.more = make(chan struct{})
		return
	}
	done := p.pending[words[0]]
	if done == nil || len(words) < 2 {
		return // of a call that was given up
	}
	delete(p.pending, words[0])
	switch {
	case words[1] == "ok":
		done <- reply{words: words[2:]}
	case words[1] == "timeout":
		done <- reply{err: ErrTimeout}
	case words[1] == "error" && len(words) == 4:
		done <- reply{err: &Error{words[2], words[3]}}
	default:
		done <- reply{err: fmt.Errorf("javapeer: cannot understand %q", line)}
	}
}

func (p *Peer) endedErr() error { return fmt.Errorf("%w: %v", ErrEnded, p.process.Err()) }
