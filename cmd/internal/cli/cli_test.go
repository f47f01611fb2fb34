//go:build linux || darwin

package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	script := b.file("script")
	require.NoError(t, os.WriteFile(script, []byte("x"), 0o600))
	plain, wrong := b.file("plain"), b.file("wrong")
	require.NoError(t, os.WriteFile(plain, []byte("exit $1\n"), 0o700))
	require.NoError(t, os.WriteFile(wrong, []byte("#!/no/such/shell\n"), 0o700))
	for _, tt := range []struct {
		code int
		err  string
		args []string
	}{
		{0, "", []string{"lock", path, "--", "true"}},
		{5, "", []string{"lock", path, "--", plain, "5"}},
		{126, "cannot be run", []string{"lock", path, "--", wrong}},
		{7, "", []string{"lock", path, "--shared", "--", "sh", "-c", "exit 7"}},
		{0, "", []string{"permit", "/permits", "--of", "1", "--", "true"}},
		{9, "", []string{"lead", "/lead", "--", "sh", "-c", "exit 9"}},
		{0, "", []string{"lead", "/lead", "--once", "--", "true"}},
		{143, "", []string{"lock", path, "--", "sh", "-c", "kill -TERM $$"}},
		{127, "command not found", []string{"lock", path, "--", "no-such-command"}},
		{126, "permission denied", []string{"lock", path, "--", script}},
		{124, "one path is needed", []string{"lock", path, "other", "--", "true"}},
		{124, "no command", []string{"lock", path, "true"}},
		{124, "no command", []string{"lock", path, "--"}},
		{124, "invalid path", []string{"lock", "locks", "--", "true"}},
		{124, "unknown flag", []string{"lock", path, "--no-such-flag", "--", "true"}},
		{124, "unknown command", []string{"unlock"}},
		{124, "write -- before", []string{"set", "/x", "-9"}},
		{124, "give a second", []string{"once", "/jobs/x", "1", "--wait", "0s", "--", "true"}},
		{124, "contradict", []string{"lock", path, "--try", "--wait", "1s", "--", "true"}},
		{124, "contradict", []string{"lock", path, "--shared", "--exclusive", "--", "true"}},
		{124, "negative", []string{"lock", path, "--jitter", "-1s", "--", "true"}},
		{124, "--of is needed", []string{"permit", path, "--", "true"}},
		{124, "raise --session-timeout", []string{"lock", path, "--grace", "30s", "--", "true"}},
		{124, "out of range", []string{"lock", path, "--session-timeout", "0s", "--", "true"}},
		{124, "no such file", []string{"lock", path, "--sasl-file", b.file("nothing"), "--", "true"}},
		{124, "does not contain user:password", []string{"lock", path, "--digest-file", script, "--", "true"}},
		{123, "cannot connect", []string{"lock", path, "--servers", "127.0.0.1:1", "--connect-timeout", "300ms", "--", "true"}},
	} {
		code, _, err := b.runs(tt.args...)
		assert.Equal(t, tt.code, code, "%q: %s", tt.args, err)
		assert.Contains(t, strings.ToLower(err), tt.err, "%q", tt.args)
		if tt.err == "" {
			assert.Empty(t, err, "%q", tt.args)
		}
	}
	b.env = []string{"CURATOR_SERVERS="}
	code, _, err := b.runs("lock", path, "--", "true")
	assert.Equal(t, 124, code)
	assert.Contains(t, err, "curator serve")
	b.env = []string{"CURATOR_SERVERS=" + b.srv.Addr(), "CURATOR_SESSION_TIMEOUT=soon"}
	code, _, err = b.runs("lock", path, "--", "true")
	assert.Equal(t, 124, code)
	assert.Contains(t, err, "CURATOR_SESSION_TIMEOUT")
	b.atRest()
}

// A command gets the descriptors that the program was started with, under their numbers.
func TestDescriptorsAreHandedOver(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for fd := 3; fd < 7; fd++ {
		file := b.file(strconv.Itoa(fd))
		require.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(fd)+"\n"), 0o600))
		f, err := os.Open(file)
		require.NoError(t, err)
		defer f.Close()
		b.files = append(b.files, f)
	}
	code, out, stderr := b.runs("lock", path, "--", "sh", "-c",
		"cat <&3; cat <&4; cat <&5; cat <&6; for fd in 7 8 9; do (: <&$fd) 2>/dev/null && echo $fd is open, too; done; true")
	assert.Zero(t, code, stderr)
	assert.Equal(t, "3\n4\n5\n6", out)
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	require.NoError(t, b.srv.Create("/app", nil))
	b.env = append(b.env, "CURATOR_TOKEN=of another hold", "CURATOR_SERVERS="+b.srv.Addr()+"/app")
	code, out, _ := b.runs("lock", path, "--", "sh", "-c", `echo "$CURATOR_PATH $CURATOR_NODE $CURATOR_TOKEN $CURATOR_DEADLINE"`)
	require.Zero(t, code)
	got := strings.Fields(out)
	require.Len(t, got, 4)
	assert.Equal(t, path, got[0])
	assert.Regexp(t, `^/locks/x/_c_[-0-9a-f]+-lock-0000000000$`, got[1])
	assert.Regexp(t, `^\d+$`, got[2])
	deadline, err := time.Parse(time.RFC3339, got[3])
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), deadline, limit)
	assert.True(t, b.srv.Exists("/app"+path), "below the chroot")

	code, out, _ = b.runs("permit", "/permits", "--of", "2", "--", "sh", "-c", `echo "$CURATOR_NODE ${CURATOR_TOKEN-none}"`)
	require.Zero(t, code)
	assert.Regexp(t, `^/permits/leases/\S+ none$`, out)
}

func TestNotAcquired(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	holder := b.start("lock", path, "--", "sleep", "600")
	eventually(t, "held", func() bool { return len(b.line()) == 1 })
	code, _, err := b.runs("lock", path, "--try", "--", "true")
	assert.Equal(t, 121, code, err)
	assert.Regexp(t, `; held by session 0x[0-9a-f]+ of 127\.0\.0\.1:\d+, which joined the line \d+s ago, with the data \S+$`, err)
	for _, wait := range []string{"200ms", "0s"} {
		code, _, err = b.runs("lock", path, "--wait", wait, "--", "true")
		assert.Equal(t, 121, code, err)
	}
	waiting := b.start("lock", path, "--", "true")
	eventually(t, "waiting", func() bool { return len(b.line()) == 2 })
	waiting.signal(syscall.SIGINT)
	assert.Equal(t, 130, waiting.code())
	eventually(t, "gone from the line", func() bool { return len(b.line()) == 1 })
	holder.signal(syscall.SIGTERM)
	assert.Equal(t, 143, holder.code())
	b.atRest()
}

func TestSharedAndExclusive(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	reader := b.start(append([]string{"lock", path, "--shared"}, b.writer("reader")...)...)
	b.writes("reader")
	code, _, err := b.runs("lock", path, "--shared", "--try", "--", "true")
	assert.Zero(t, code, err)
	code, _, err = b.runs("lock", path, "--exclusive", "--try", "--", "true")
	assert.Equal(t, 121, code, err)
	code, _, err = b.runs("lock", path, "--", "true")
	assert.Equal(t, 124, code, err)
	assert.Contains(t, err, "a lock of the other kind")
	reader.signal(syscall.SIGKILL)
	reader.code()
	b.expire()
	b.atRest()

	mutex := b.start(append([]string{"lock", path}, b.writer("mutex")...)...)
	b.writes("mutex")
	code, _, err = b.runs("lock", path, "--shared", "--", "true")
	assert.Equal(t, 124, code, err)
	mutex.signal(syscall.SIGKILL)
	mutex.code()
	b.expire()
	b.atRest()
}

// A signal to the program reaches the command, whichever process of the command handles it.
func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for s, status := range map[syscall.Signal]int{syscall.SIGTERM: 9, syscall.SIGHUP: 8, syscall.SIGUSR1: 7} {
		ready := b.file("ready" + s.String())
		p := b.start("lock", path, "--", "sh", "-c",
			`trap "exit 9" TERM; trap "exit 8" HUP; trap "exit 7" USR1; : > "$0"; while :; do sleep 0.02; done`, ready)
		eventually(t, "ready", func() bool { _, err := os.Stat(ready); return err == nil })
		p.signal(s)
		assert.Equal(t, status, p.code(), s)
	}
	b.atRest()
}

func TestMinHold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	began := time.Now()
	p := b.start("lock", path, "--min-hold", "1s", "--jitter", "1ms", "--", "sh", "-c", "exit 5")
	eventually(t, "held", func() bool { return len(b.line()) == 1 })
	assert.Equal(t, 5, p.code())
	assert.GreaterOrEqual(t, time.Since(began), time.Second)

	p = b.start("lock", path, "--min-hold", "1h", "--", "sh", "-c", ": > "+b.file("ran"))
	eventually(t, "run", func() bool { _, err := os.Stat(b.file("ran")); return err == nil })
	eventually(t, "ended by a signal", func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	b.atRest()
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	srv := zktest.RunT(quiet{t}, zktest.Config{Listen: "127.0.0.1:0", SASLUsers: map[string]string{"alice": "right"}, RequireSASL: true})
	b.env = append(b.env, "CURATOR_SERVERS="+srv.Addr())
	file := b.file("sasl")
	for _, tt := range []struct {
		password, patience string
		code               int
	}{{"right", "1m", 0}, {"wrong", "2s", 123}} {
		require.NoError(t, os.WriteFile(file, []byte("alice:"+tt.password+"\n"), 0o600))
		code, out, err := b.runs("lock", path, "--sasl-file", file, "--connect-timeout", tt.patience, "--", "true")
		assert.Equal(t, tt.code, code, err)
		assert.NotContains(t, out+err, tt.password)
	}
	b.env = append(b.env, "CURATOR_SASL=alice:right")
	code, _, err := b.runs("lock", path, "--", "true")
	assert.Zero(t, code, err)
}

func TestServe(t *testing.T) {
	t.Parallel()
	for _, members := range []string{"1", "3"} {
		b := newBed(t)
		p := b.start("serve", "--listen", "127.0.0.1:0", "--members", members)
		var servers []string
		eventually(t, "serving", func() bool {
			servers = regexp.MustCompile(`CURATOR_SERVERS=(\S+)`).FindStringSubmatch(p.stdout())
			return servers != nil
		})
		code, _, err := b.runs("lock", path, "--servers", servers[1], "--session-timeout", "30s", "--", "true")
		assert.Zero(t, code, err)
		p.signal(syscall.SIGTERM)
		assert.Zero(t, p.code())
	}
}

// When the terminal is closed the command gets HUP, and no process is left.
func TestTheTerminalGoes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	user, terminal, err := pty.Open()
	require.NoError(t, err)
	b.onto = terminal
	p := b.start("lock", path, "--", "sh", "-c", `trap "exit 9" HUP; : > "$0"; while :; do sleep 0.02; done`, b.file("ready"))
	terminal.Close()
	eventually(t, "ready", func() bool { _, err := os.Stat(b.file("ready")); return err == nil })
	user.Close()
	assert.Equal(t, 9, p.code())
	b.atRest()
}

// A command may read from the terminal, and gets the keys that interrupt it. Ctrl-Z does not stop it.
func TestTheTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	user, terminal, err := pty.Open()
	require.NoError(t, err)
	defer user.Close()
	defer terminal.Close()
	b.onto = terminal
	p := b.start("lock", path, "--", "sh", "-c", `echo ready; read x; echo "got $x"; exit 4`)
	eventually(t, "ready", func() bool { return p.stdout() == "ready" })
	_, err = user.WriteString("\x1a")
	require.NoError(t, err)
	_, err = user.WriteString("hello\n")
	require.NoError(t, err)
	assert.Equal(t, 4, p.code())
	assert.Equal(t, "ready\ngot hello", p.stdout())
	b.atRest()
}

func TestCtrlC(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	user, terminal, err := pty.Open()
	require.NoError(t, err)
	defer user.Close()
	defer terminal.Close()
	b.onto = terminal
	p := b.start("lock", path, "--", "sh", "-c", `trap "exit 6" INT; echo ready; while :; do sleep 0.02; done`)
	eventually(t, "ready", func() bool { return p.stdout() == "ready" })
	_, err = user.WriteString("\x03")
	require.NoError(t, err)
	assert.Equal(t, 6, p.code())
	b.atRest()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	doc, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| (0 to 255|1|12\d|128 \+ n) \| (.*) \|$`).FindAllStringSubmatch(string(doc), -1) {
		documented = append(documented, row[1]+"  "+strings.ReplaceAll(row[2], "`", ""))
	}
	code, out, _ := b.runs("--help")
	assert.Zero(t, code)
	_, codes, _ := strings.Cut(out, "Exit codes:\n")
	codes, _, _ = strings.Cut(codes, "\n\n")
	codes = strings.ReplaceAll(codes, "\n            ", " ") // the lines that were too long
	var told []string
	for line := range strings.Lines(codes) {
		told = append(told, regexp.MustCompile(`   +`).ReplaceAllString(strings.TrimSpace(line), "  "))
	}
	assert.Equal(t, told, documented, "docs/cli.md says what the help says")

	for _, command := range []string{"lock", "lead", "permit", "once", "who", "locks", "why", "doctor", "web", "serve", "version", "man", "completion"} {
		code, out, _ := b.runs(command, "--help")
		assert.Zero(t, code)
		assert.NotContains(t, out, "\x1b")
		if command != "completion" {
			assert.True(t, strings.Contains(string(doc), "`curator "+command), "%s is in docs/cli.md", command)
		}
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(out, -1) {
			if command != "completion" && flag[1] != "--help" {
				assert.True(t, strings.Contains(string(doc), "`"+flag[1]), "%s is in docs/cli.md", flag[1])
			}
		}
	}
	code, out, _ = b.runs("completion", "bash")
	assert.Zero(t, code)
	assert.Contains(t, out, "curator")
	code, _, _ = b.runs("man", b.file("man1"))
	assert.Zero(t, code)
	pages, _ := filepath.Glob(b.file("man1/curator*.1"))
	assert.GreaterOrEqual(t, len(pages), 12)
	code, out, _ = b.runs("version")
	assert.Zero(t, code)
	assert.Contains(t, out, "curator ")
	code, same, _ := b.runs("--version")
	assert.Zero(t, code)
	assert.Equal(t, out, same)
}
