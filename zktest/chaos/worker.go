package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/internal/chance"
)

// A worker is a child process of the test binary. It reads plans from its standard input, one a line, and writes the
// result of each as a line that begins with marker. All other lines that it prints are the service's.
const (
	workerEnv = "CURATOR_CHAOS_WORKER"
	marker    = "\x01chaos "
)

// runChild is the child's part of Test.
func runChild(t *testing.T, cfg Config, scenario func(*World)) {
	for line := range requestedPlans() {
		var p Plan
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatalf("chaos: a worker was given no plan: %v", err)
		}
		sendResult(playPlan(t, &p, cfg, scenario))
	}
}

// requestedPlans returns a channel of the lines from the parent. The process ends after its parent, even if a run
// does not end.
func requestedPlans() <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer time.AfterFunc(parting, func() { os.Exit(1) })
		defer close(lines)
		for in := bufio.NewReader(os.Stdin); ; {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	return lines
}

// sendResult sends a run's result to the parent.
func sendResult(r *Result) {
	if len(r.Violations) == 0 {
		r.Story, r.Trace = nil, nil
	}
	out, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	fmt.Printf("\n%s%s\n", marker, out)
	if r.Unfit {
		os.Exit(0) // some of its goroutines have not ended
	}
}

// playPlan runs a plan in a separate bubble, with all random numbers from the seed.
func playPlan(t *testing.T, p *Plan, cfg Config, scenario func(*World)) (r *Result) {
	defer chance.Seed(p.Seed)()
	defer func() {
		if left := recover(); left != nil {
			if r == nil {
				panic(left)
			}
			r.Violations = append(
				r.Violations,
				Violation{Check: "goroutines", At: r.Took, Text: fmt.Sprint(left)},
			)
			r.Unfit = true
		}
	}()
	synctest.Test(t, func(*testing.T) { r = runPlan(p, cfg, scenario, sendResult) })
	return r
}

// workerProcess is the parent's side of a worker. The zero value starts its process when it is needed.
type workerProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log *outputTail
}

// playPlan plays a plan in the child process. It is a violation if the process dies, or does not end the run within
// standstill.
func (w *workerProcess) playPlan(t *testing.T, p *Plan) *Result {
	if w.cmd == nil {
		if err := w.startProcess(t); err != nil {
			return deathViolation(p, "worker", fmt.Sprintf("cannot be started: %v", err))
		}
	}
	line, err := json.Marshal(p)
	if err == nil {
		_, err = w.in.Write(append(line, '\n'))
	}
	if err != nil {
		return w.deathResult(p, err)
	}
	quit := time.AfterFunc(standstill, func() {
		w.log.keepAll()
		_ = w.cmd.Process.Signal(syscall.SIGQUIT) // it prints the stacks of its goroutines
	})
	defer quit.Stop()
	kill := time.AfterFunc(standstill+parting, func() { _ = w.cmd.Process.Kill() })
	defer kill.Stop()
	for {
		line, err := w.out.ReadString('\n')
		if rest, is := strings.CutPrefix(line, marker); is && err == nil {
			var r Result
			if err := json.Unmarshal([]byte(rest), &r); err != nil {
				return w.deathResult(p, err)
			}
			if r.Unfit {
				w.closeProcess()
			}
			return &r
		}
		w.log.write(line)
		if err != nil && quit.Stop() {
			return w.deathResult(p, err)
		}
		if err != nil {
			w.closeProcess()
			r := deathViolation(p, "process", standstillText(w.log.text()))
			r.standsStill = true
			return r
		}
	}
}

// deathResult returns the result of a plan whose run ended the process.
func (w *workerProcess) deathResult(p *Plan, err error) *Result {
	w.closeProcess()
	text := w.log.text()
	if i := strings.Index(text, "panic: "); i >= 0 {
		text = text[i:]
	} else if i := strings.Index(text, "fatal error: "); i >= 0 {
		text = text[i:]
	}
	return deathViolation(p, "process", fmt.Sprintf("the test process has died (%v):\n%s", err, text))
}

// standstillText returns the text of a violation by a process that was ended after standstill, from its last output, which
// contains the stacks of its goroutines.
func standstillText(output string) string {
	reason := "a goroutine tries again without a pause"
	if waiting := mutexWaiters(output); len(waiting) > 0 {
		reason = "virtual time does not pass while a goroutine waits for a mutex, and the goroutine that holds the mutex waits " +
			"for a reply, a channel or the time. Waiting for a mutex:\n  " + strings.Join(waiting, "\n  ") +
			"\nUnlock it before the wait, also in callbacks (docs/testing-your-service.md)"
	}
	return fmt.Sprintf("the test process has not ended within %v: %s\n%s", standstill, reason, output[:min(len(output), tailSize)])
}

// mutexWaiters returns the goroutines that wait for a mutex, each as the function that locks it, from the stacks that a
// process prints at SIGQUIT.
func mutexWaiters(stacks string) (waiting []string) {
	for _, stack := range strings.Split(stacks, "\n\n") {
		lines := strings.Split(strings.TrimSpace(stack), "\n")
		if !mutexState.MatchString(lines[0]) {
			continue
		}
		for i := 1; i+1 < len(lines); i += 2 { // a function, and its file
			if !lockFunction.MatchString(lines[i]) {
				at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
				waiting = append(waiting, lines[i]+" at "+at)
				break
			}
		}
	}
	return waiting
}

var (
	mutexState   = regexp.MustCompile(`^goroutine .*\[sync\.(RW)?Mutex\.R?Lock\b`)
	lockFunction = regexp.MustCompile(`^(runtime|sync|internal/\w+)\.`)
)

func deathViolation(p *Plan, check, text string) *Result {
	return &Result{Plan: p, Violations: []Violation{{Check: check, Text: text}}}
}

func (w *workerProcess) startProcess(t *testing.T) (err error) {
	args := []string{"-test.run=" + testPattern(t), "-test.timeout=0", "-test.count=1"}
	if dir := flag.Lookup("test.gocoverdir"); dir != nil && dir.Value.String() != "" {
		args = append(args, "-test.gocoverdir="+dir.Value.String()) // so that the child's code coverage counts
	}
	w.cmd = exec.Command(program, append(args, ownArguments(os.Args[1:])...)...)
	w.cmd.Dir = directory
	// With one processor and a garbage collector that seldom runs, a seed's run is nearly the same each time.
	w.cmd.Env = append(os.Environ(), workerEnv+"=1", "GOMAXPROCS=1", "GOGC=1600")
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.out, w.log = bufio.NewReaderSize(out, 1<<16), &outputTail{}
	w.cmd.Stderr = w.log
	return w.cmd.Start()
}

// The program and the working directory at the start: os.Args[0] may be relative to a directory that a test has left.
var (
	program, _   = os.Executable()
	directory, _ = os.Getwd()
)

// testPattern returns the value of -run that selects this test alone.
func testPattern(t *testing.T) string {
	var names []string
	for _, part := range strings.Split(t.Name(), "/") {
		names = append(names, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(names, "/")
}

// ownArguments returns the arguments of a test binary without the flags of package testing and of this package,
// exactly as written: the value of a parsed flag may not be valid as its argument.
func ownArguments(args []string) (own []string) {
	for len(args) > 0 {
		arg := args[0]
		name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		if name == arg || arg == "-" || arg == "--" {
			return append(own, args...) // the end of the flags
		}
		n := 1
		name, _, valued := strings.Cut(name, "=")
		if f := flag.Lookup(name); !valued && f != nil && len(args) > 1 {
			if b, is := f.Value.(interface{ IsBoolFlag() bool }); !is || !b.IsBoolFlag() {
				n = 2 // its value is the next argument
			}
		}
		if !strings.HasPrefix(name, "test.") && !strings.HasPrefix(name, "chaos.") {
			own = append(own, args[:n]...)
		}
		args = args[n:]
	}
	return own
}

// parting limits the time of a process to end after its standard input is closed.
const parting = 5 * time.Second

// closeProcess ends the process.
func (w *workerProcess) closeProcess() {
	if w.cmd == nil {
		return
	}
	_ = w.in.Close() // it ends by itself
	soon := time.AfterFunc(parting, func() { _ = w.cmd.Process.Kill() })
	defer soon.Stop()
	_, _ = io.Copy(io.Discard, w.out)
	_ = w.cmd.Wait()
	w.cmd = nil
}

// outputTail keeps the last tailSize bytes that a process prints, and after keepAll all.
type outputTail struct {
	mu       sync.Mutex
	buf      []byte
	keepsAll bool
}

const tailSize = 64 << 10

func (b *outputTail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf = append(b.buf, p...); len(b.buf) > tailSize && !b.keepsAll {
		b.buf = bytes.Clone(b.buf[len(b.buf)-tailSize:])
	}
	return len(p), nil
}

// keepAll drops the output until now, and keeps all later output.
func (b *outputTail) keepAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf, b.keepsAll = nil, true
}

func (b *outputTail) write(s string) { _, _ = b.Write([]byte(s)) }

func (b *outputTail) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
