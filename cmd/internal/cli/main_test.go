//go:build linux || darwin

package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cmd/internal/cli"
	"github.com/go-curator/curator/cmd/internal/clock"
	"github.com/go-curator/curator/cmd/internal/keeper"
	"github.com/go-curator/curator/zktest"
)

// The test binary is also the program under test, and the commands that it runs.
func TestMain(m *testing.M) {
	switch args := os.Args[1:]; {
	case len(args) > 1 && args[0] == "__write":
		write(args[1:])
	case len(args) > 1 && args[0] == "__daemon":
		c := exec.Command(os.Args[0], append([]string{"__write"}, args[1:]...)...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if c.Start() != nil {
			os.Exit(1)
		}
	case len(args) > 0 && args[0] == keeper.Word, os.Getenv("TEST_RUNS") == "curator":
		os.Exit(cli.Main(args))
	default:
		// Tests under nohup, or in a shell's background, are started with signals ignored. An ignored signal stays ignored
		// in a child, and a caught one does not.
		for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
			if signal.Ignored(sig) {
				signal.Notify(make(chan os.Signal, 1), sig)
			}
		}
		_ = flag.Set("test.parallel", "16") // they wait most of the time, for sessions to expire
		flag.Parse()
		os.Exit(m.Run())
	}
}

// write is a command that records when it runs: it writes the time into a file again and again, for a while or for ever. It
// records TERM, and continues.
func write(args []string) {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(1)
	}
	lasts := 5 * time.Minute
	if len(args) > 1 {
		lasts, _ = time.ParseDuration(args[1])
	}
	fmt.Fprintln(file, "parent", os.Getppid())
	for began := clock.Now(); clock.Now() < began+lasts; time.Sleep(time.Millisecond) {
		select {
		case <-terms:
			fmt.Fprintln(file, "term", int64(clock.Now()))
		default:
			fmt.Fprintln(file, "write", int64(clock.Now()))
		}
	}
}

// written holds the records of write in a file.
type written struct {
	parent      int
	first, last time.Duration
	terms       []time.Duration
	all         []time.Duration
}

func read(t *testing.T, path string) (w written) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		kind, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || !strings.HasSuffix(line, "\n") {
			continue // killed in the middle of a line
		}
		at := time.Duration(n)
		switch kind {
		case "parent":
			w.parent = int(n)
			continue
		case "term":
			w.terms = append(w.terms, at)
		}
		if w.first == 0 {
			w.first = at
		}
		w.last = at
		w.all = append(w.all, at)
	}
	return w
}

// limit is the longest time for an event that must happen.
const limit = 3 * time.Minute

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, fmt.Sprintf("not within %v: %s", limit, what))
		}
	}
}

// bed is a server, with the programs that are started on it.
type bed struct {
	*testing.T
	srv *zktest.Server
	dir string
	env []string
	net *network // of the first program, in some tests
	// onto is the terminal of the programs, and their standard input; nil for none.
	onto *os.File
	// whole means that their output is on the terminal, too.
	whole bool
	out   *os.File   // their standard output, if not a file of its own
	files []*os.File // further files that they inherit
}

const path = "/locks/x"

// newBed starts a server. Its clients' sessions are long enough for a busy machine.
func newBed(t *testing.T) *bed {
	srv := zktest.RunT(quiet{t}, zktest.Config{Listen: "127.0.0.1:0", TickTime: 500 * time.Millisecond,
		MinSessionTimeout: time.Second, MaxSessionTimeout: time.Minute})
	return &bed{T: t, srv: srv, dir: t.TempDir(), env: []string{
		"CURATOR_SERVERS=" + srv.Addr(), "CURATOR_SESSION_TIMEOUT=30s", "CURATOR_CONNECT_TIMEOUT=1m"}}
}

// quiet drops the server's trace.
type quiet struct{ *testing.T }

func (quiet) Logf(string, ...any) {}

func (b *bed) file(name string) string { return filepath.Join(b.dir, name) }

// proc is a running program.
type proc struct {
	*bed
	cmd  *exec.Cmd
	err  string // the file of its standard error
	out  string
	done chan struct{}
}

func (b *bed) start(args ...string) *proc {
	b.Helper()
	p := &proc{bed: b, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "TEST_RUNS=curator", "GORACE=atexit_sleep_ms=0"), b.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for name, to := range map[string]*string{"out": &p.out, "err": &p.err} {
		f, err := os.CreateTemp(b.dir, name)
		require.NoError(b, err)
		defer f.Close()
		*to = f.Name()
		if name == "out" {
			p.cmd.Stdout = f
		} else {
			p.cmd.Stderr = f
		}
	}
	if b.onto != nil {
		p.cmd.Stdin, p.cmd.SysProcAttr = b.onto, &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if b.whole {
			p.cmd.Stdout, p.cmd.Stderr = b.onto, b.onto
		}
	}
	if b.out != nil {
		p.cmd.Stdout = b.out
	}
	p.cmd.ExtraFiles = b.files
	require.NoError(b, p.cmd.Start())
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	b.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.done
		if b.Failed() {
			b.Logf("%q: %v\n%s%s", args, p.cmd.ProcessState, p.stdout(), p.stderr())
		}
	})
	return p
}

// code waits for the program's end, and returns its exit code.
func (p *proc) code() int {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		require.FailNow(p, "the program does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *proc) signal(s syscall.Signal) { require.NoError(p, p.cmd.Process.Signal(s)) }

func (p *proc) stdout() string { return text(p.out) }
func (p *proc) stderr() string { return text(p.err) }

func text(path string) string {
	b, _ := os.ReadFile(path)
	return string(bytes.TrimSpace(b))
}

// runs runs the program to its end, and returns its exit code and its output.
func (b *bed) runs(args ...string) (code int, out, err string) {
	b.Helper()
	p := b.start(args...)
	code = p.code()
	return code, p.stdout(), p.stderr()
}

// writer returns a command that writes into the file, until it is killed or for a while.
func (b *bed) writer(name string, lasts ...string) []string {
	return append([]string{"--", os.Args[0], "__write", b.file(name)}, lasts...)
}

// writes waits until a writer has begun to write.
func (b *bed) writes(name string) written {
	b.Helper()
	eventually(b.T, name+" is written", func() bool { return read(b.T, b.file(name)).first > 0 })
	return read(b.T, b.file(name))
}

func (b *bed) line() []string {
	names, _ := b.srv.Children(path)
	return names
}

// expire ends all sessions, as the server does after their timeouts.
func (b *bed) expire() {
	for _, session := range b.srv.Sessions() {
		b.srv.Expire(session.ID)
	}
}

// atRest waits until the server has no session left, and so no ephemeral node.
func (b *bed) atRest() {
	b.Helper()
	eventually(b.T, "no session is left", func() bool { return len(b.srv.Sessions()) == 0 })
	for node, n := range b.srv.Tree() {
		assert.Zero(b, n.Stat.EphemeralOwner, node)
	}
	assert.Empty(b, b.line())
}
