//go:build linux || darwin

package cli_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// typist is a program on a terminal of its own, with the user's end of that.
type typist struct {
	*proc
	user *os.File

	mu   sync.Mutex
	seen string // guarded by mu
	from int    // the position after the text that the last check has found
}

// atPrompt starts a program, and reads its output.
func (b *bed) atPrompt(args ...string) *typist {
	b.Helper()
	s := b.unread(args...)
	read := make(chan struct{})
	go func() {
		defer close(read)
		p := make([]byte, 4096)
		for {
			n, err := s.user.Read(p)
			s.mu.Lock()
			s.seen += string(p[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGKILL) // ends the reading goroutine
		<-read
		if b.Failed() {
			b.Logf("%q: %v\n%q", args, s.cmd.ProcessState, s.all())
		}
	})
	return s
}

// unread starts a program whose terminal is not read.
func (b *bed) unread(args ...string) *typist {
	b.Helper()
	user, terminal, err := pty.Open()
	require.NoError(b, err)
	require.NoError(b, pty.Setsize(user, &pty.Winsize{Rows: 50, Cols: 200}))
	s := &typist{user: user, proc: b.unstarted(args...)}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(b, s.cmd.Start())
	require.NoError(b, terminal.Close())
	go func() { defer close(s.done); _ = s.cmd.Wait() }()
	b.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGKILL)
		<-s.done
		_ = user.Close()
	})
	return s
}

func (b *bed) unstarted(args ...string) *proc {
	p := &proc{bed: b, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "TEST_RUNS=curator", "GORACE=atexit_sleep_ms=0", "TERM=xterm",
		"CURATOR_HISTORY="+b.file("history")), b.env...)
	return p
}

func (s *typist) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *typist) types(text string) {
	s.Helper()
	_, err := s.user.WriteString(text)
	require.NoError(s, err)
}

// shows waits until the screen shows a text after the last one that was found.
func (s *typist) shows(text string) {
	s.Helper()
	eventually(s.T, "the screen shows "+text, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := strings.Index(s.seen[s.from:], text)
		if i >= 0 {
			s.from += i + len(text)
		}
		return i >= 0
	})
}

// prompts waits for the next prompt.
func (s *typist) prompts() {
	s.Helper()
	s.shows("curator> ")
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.atPrompt("shell")
	s.shows("connected to " + b.srv.Addr())
	s.prompts()

	// One session for all lines: ephemeral nodes stay.
	s.types("create /mine 'of the prompt' --ephemeral\r")
	s.shows("\n/mine\r\n")
	s.prompts()
	s.types("get /mine\r")
	s.shows("\nof the prompt\r\n")
	s.prompts()
	require.Len(t, b.srv.Sessions(), 1)

	// Errors suggest the next step, and do not end the prompt.
	s.types("get /none\r")
	s.shows("node does not exist")
	s.prompts()
	s.types("frobnicate\r")
	s.shows("help lists them")
	s.prompts()

	// History.
	s.types("\x1b[A\x1b[A\x1b[A\r") // up, three times
	s.shows("\nof the prompt\r\n")
	s.prompts()
	s.types("create\x12") // Ctrl-R
	s.shows("/mine 'of the prompt' --ephemeral")
	s.types("\x15") // Ctrl-U
	s.types(" get /secret\r")
	s.shows("node does not exist")
	s.prompts()

	// Ctrl-C drops the line.
	s.types("rm /mine\x03")
	s.shows("^C")
	s.prompts()
	assert.True(t, b.srv.Exists("/mine"))

	// Ctrl-C ends a command, not the prompt.
	s.types("watch /mine\r")
	s.shows("watching /mine: 1 nodes now")
	require.NoError(t, b.srv.Set("/mine", []byte("\x1b]0;owned\x07")))
	s.shows(`\x1b]0;owned\a`)
	s.types("\x03")
	s.prompts()
	s.types("help\r")
	s.shows("reconfig")
	s.prompts()

	// Ctrl-D ends the prompt, and its nodes are deleted.
	s.types("\x04")
	assert.Zero(t, s.code())
	b.atRest()
	history := text(b.file("history"))
	assert.Contains(t, history, "get /mine\n")
	assert.NotContains(t, history, "secret")
	assert.NotContains(t, s.all(), "\x07", "nothing of a node's data controls the terminal")

	// The next prompt has the history.
	s = b.atPrompt("shell")
	s.prompts()
	s.types("\x1b[A\r")
	s.shows("reconfig")
	s.prompts()
	s.types("exit\r")
	assert.Zero(t, s.code())
}

func TestPromptCompletes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, path := range []string{"/services", "/services/billing", "/services/billing/a b", "/services/orders",
		"/services/orders/\u202ex", "/services/orders/\u202ey"} {
		require.NoError(t, b.srv.Create(path, []byte("data of "+path)))
	}
	s := b.atPrompt("shell")
	s.prompts()
	s.types("rec\t")
	s.shows("reconfig ")
	s.types("\x15sta\t/ser\t")
	s.shows("stat /services")
	s.types("/\t\t")
	s.shows("billing  orders")
	s.types("b\t/\t\"\r")
	s.shows(`"/services/billing/a b"`)
	s.shows("version")
	s.prompts()
	s.types("get /services/orders/\t\t")
	s.shows(`get "/services/orders/\u202e`)
	s.shows(`\u202ex  \u202ey`)
	s.types("x\"\r")
	s.shows(`data of /services/orders/\u202ex`)
	s.prompts()
	s.types("acl s\t")
	s.shows("acl set ")
	s.types("\x15get --a\t")
	s.shows("get --as")
	s.types("\x15\x04")
	assert.Zero(t, s.code())
	assert.NotContains(t, s.all(), "\u202e")
}

func TestPromptReconnects(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.atPrompt("shell")
	s.prompts()
	s.types("create /e -e\r")
	s.shows("\n/e\r\n")
	s.prompts()
	s.types("ls half a li")
	b.srv.Stop()
	s.shows("connection lost")
	s.shows("ls half a li") // the line has been kept
	require.NoError(t, b.srv.Start())
	s.shows("reconnected; the session and its ephemeral nodes still exist")
	s.types("\x15stat /e\r")
	s.shows("of session 0x")
	s.prompts()
	b.expire()
	s.shows("session lost")
	s.shows("in a new session")
	s.types("stat /e\r")
	s.shows("node does not exist")
	s.prompts()

	// A command that waits for a server is ended by Ctrl-C.
	b.srv.Stop()
	s.shows("connection lost")
	s.types("ls /\r")
	s.shows("ls /\r\n")
	s.types("\x03")
	s.shows(")> ")
	s.signal(syscall.SIGTERM)
	assert.Equal(t, 143, s.code())
}

func TestPromptEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.unread("shell")
	s.types("create /e -e\r")
	eventually(t, "created", func() bool { return b.srv.Exists("/e") })
	require.NoError(t, s.user.Close())
	s.code()
	b.atRest()
}

func TestAsksBeforeATreeIsDeleted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, path := range []string{"/a", "/a/b", "/a/c"} {
		require.NoError(t, b.srv.Create(path, nil))
	}
	for answer, code := range map[string]int{"\r": 1, "n\r": 1, "\x03": 1, "\x04": 1, "yess\r": 1} {
		s := b.atPrompt("rm", "/a", "-r")
		s.shows("Delete /a and 2 nodes below it, 0 of them ephemeral? [y/N] ")
		s.types(answer)
		assert.Equal(t, code, s.code(), "%q", answer)
		s.shows("nothing was deleted")
		assert.True(t, b.srv.Exists("/a/c"))
	}
	s := b.atPrompt("rm", "/a", "-r")
	s.shows("[y/N] ")
	s.signal(syscall.SIGTERM)
	assert.Equal(t, 143, s.code())

	s = b.atPrompt("shell")
	s.prompts()
	s.types("rm /a/b -r\r")
	s.shows("[y/N] ")
	s.types("n\r")
	s.shows("nothing was deleted")
	s.prompts()
	s.types("rm /a/b -r\r")
	s.shows("[y/N] ")
	s.types("y\r")
	s.prompts()
	assert.False(t, b.srv.Exists("/a/b"))
	s.types("\x04")
	assert.Zero(t, s.code())

	s = b.atPrompt("rm", "/a", "-r")
	s.shows("[y/N] ")
	s.types("yes\r")
	assert.Zero(t, s.code())
	assert.False(t, b.srv.Exists("/a"))
}

func TestNodeCommandsExitCodes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, tt := range []struct {
		code int
		says string
		args []string
	}{
		{0, "", []string{"create", "/a", "x"}},
		{1, "does not exist", []string{"stat", "/none"}},
		{1, "set path data", []string{"create", "/a"}},
		{124, "--hold", []string{"create", "/e", "-e"}},
		{124, "invalid path", []string{"get", "a"}},
		{124, "unknown flag", []string{"get", "/a", "--at"}},
		{124, "missing", []string{"get"}},
		{124, "without a terminal", []string{"rm", "/a", "-r"}},
		{124, "no servers", []string{"4lw", "ruok", "--servers", ""}},
		{123, "cannot connect", []string{"ls", "/", "--servers", "127.0.0.1:1", "--connect-timeout", "300ms"}},
		{124, "no such file", []string{"4lw", "ruok", "--tls-ca", b.file("none")}},
		{0, "", []string{"4lw", "ruok"}},
	} {
		if tt.args[0] == "4lw" && tt.says == "no servers" {
			b.env = []string{"CURATOR_SERVERS="}
		}
		code, _, err := b.runs(tt.args...)
		b.env = []string{"CURATOR_SERVERS=" + b.srv.Addr()}
		assert.Equal(t, tt.code, code, "%q: %s", tt.args, err)
		assert.Contains(t, strings.ToLower(err), tt.says, "%q", tt.args)
	}
	p := b.start("create", "/e", "-e", "--hold")
	eventually(t, "created", func() bool { return p.stdout() == "/e" })
	p.signal(syscall.SIGINT)
	assert.Equal(t, 130, p.code())
	p = b.start("create", "/e", "-e", "--hold")
	eventually(t, "created", func() bool { return p.stdout() == "/e" })
	require.NoError(t, b.srv.Delete("/e"))
	assert.Equal(t, 122, p.code(), p.stderr())
	// A command that waits for input ends immediately, too.
	s := b.atPrompt("set", "/a", "--file", "-")
	eventually(t, "connected", func() bool { return len(b.srv.Sessions()) == 1 })
	s.signal(syscall.SIGTERM)
	assert.Equal(t, 143, s.code())
	lines, input, err := os.Pipe()
	require.NoError(t, err)
	defer input.Close()
	fed := b.unstarted("shell")
	fed.cmd.Stdin = lines
	require.NoError(t, fed.cmd.Start())
	require.NoError(t, lines.Close())
	go func() { defer close(fed.done); _ = fed.cmd.Wait() }()
	_, err = input.WriteString("create /fed\n")
	require.NoError(t, err)
	eventually(t, "created", func() bool { return b.srv.Exists("/fed") })
	fed.signal(syscall.SIGINT)
	assert.Equal(t, 130, fed.code())

	p = b.start("watch", "/a")
	eventually(t, "watching", func() bool { return strings.Contains(p.stderr(), "watching") })
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.code())
	b.atRest()
}

// docs/cli.md names every command for nodes and servers with all its own flags.
func TestNodeCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	doc, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	_, out, _ := b.runs("--help")
	_, list, ok := strings.Cut(out, "Commands for nodes and servers:\n")
	require.True(t, ok)
	list, _, _ = strings.Cut(list, "\n\n")
	commands := regexp.MustCompile(`(?m)^  (\S+)`).FindAllStringSubmatch(list, -1)
	assert.Len(t, commands, 17)
	for _, c := range commands {
		all := [][]string{{c[1]}}
		if c[1] == "acl" {
			all = [][]string{{"acl", "get"}, {"acl", "set"}}
		}
		for _, command := range all {
			assert.Contains(t, string(doc), "| `curator "+strings.Join(command, " "))
			code, out, _ := b.runs(append(command, "--help")...)
			assert.Zero(t, code)
			for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(out, -1) {
				if flag[1] != "--help" {
					assert.Contains(t, string(doc), "`"+flag[1], "%s %s is in docs/cli.md", c[1], flag[1])
				}
			}
		}
	}
}
