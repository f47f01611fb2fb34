//go:build linux || darwin

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ctrlC = "\x03"

// Each command that runs another one, at a terminal: the other command has the terminal, and gets Ctrl-C.
func TestAtATerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	command := []string{"--", "sh", "-c", `trap "exit 6" INT; echo "ready for $CURATOR_PATH"; while :; do sleep 0.02; done`}
	for _, args := range [][]string{
		{"lock", path}, {"lock", "/locks/rw", "--shared"}, {"lead", "/leaders/x"}, {"permit", "/permits", "--of", "1"},
		{"once", job, "v1"},
	} {
		screen, p := b.onScreen(80, 24, append(args, command...)...)
		b.shows(screen, "ready for "+args[1])
		screen.presses(b, ctrlC)
		assert.Equal(t, 6, p.code(), args)
	}
	b.env = append(b.env, "CURATOR_SERVERS=")
	screen, p := b.onScreen(80, 24, "serve", "--listen", "127.0.0.1:0")
	b.shows(screen, "export CURATOR_SERVERS=127.0.0.1:")
	screen.presses(b, ctrlC)
	assert.Zero(t, p.code())
	screen, p = b.onScreen(80, 24, "who", path)
	b.shows(screen, "curator: no servers", "curator serve")
	assert.Equal(t, 124, p.code())
}

// seen is a line as decoded from JSON.
type seen struct {
	At               string
	Path, Kind       string
	Holders, Waiting []struct{ Node, Session, Client, Data, Library, Since string }
}

func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

func TestWho(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	code, out, err := b.runs("who", path)
	assert.Zero(t, code, err)
	assert.Equal(t, path+": there is no node", out)

	b.env = append(b.env, "CURATOR_ID=first")
	holder := b.start("lock", path, "--", "sleep", "600")
	eventually(t, "held", func() bool { return len(b.line()) == 1 })
	b.env = append(b.env, "CURATOR_ID=\x1b[2Jsecond")
	waiter := b.start("lock", path, "--", "sleep", "600")
	eventually(t, "waiting", func() bool { return len(b.line()) == 2 })

	code, out, err = b.runs("who", path)
	assert.Zero(t, code, err)
	lines := strings.Split(out, "\n")
	require.Len(t, lines, 4, out)
	assert.Equal(t, path+": mutex, 1 hold, 1 wait", lines[0])
	assert.Regexp(t, `^ +SINCE +SESSION +CLIENT +BY +DATA +NODE$`, lines[1])
	assert.Regexp(t, `^holds +\d+\S* +0x[0-9a-f]+ +127\.0\.0\.1:\d+ +go +first +_c_\S+-lock-0000000000$`, lines[2])
	assert.Regexp(t, `^waits +\d+\S* +0x[0-9a-f]+ +127\.0\.0\.1:\d+ +go +\\x1b\[2Jsecond +_c_\S+-lock-0000000001$`, lines[3])

	code, out, err = b.runs("who", path, "-o", "jsonl")
	assert.Zero(t, code, err)
	assert.NotContains(t, out, "\n")
	line := decoded[seen](t, out)
	assert.Equal(t, "mutex", line.Kind)
	require.Len(t, line.Holders, 1)
	require.Len(t, line.Waiting, 1)
	assert.Equal(t, "first", line.Holders[0].Data)
	assert.Equal(t, "\x1b[2Jsecond", line.Waiting[0].Data)
	assert.Contains(t, line.Waiting[0].Client, "127.0.0.1:")
	var sessions []string
	for _, own := range b.srv.Sessions() {
		sessions = append(sessions, fmt.Sprintf("%#x", uint64(own.ID)))
	}
	assert.ElementsMatch(t, sessions, []string{line.Holders[0].Session, line.Waiting[0].Session})
	code, out, _ = b.runs("who", path, "-o", "json")
	assert.Zero(t, code)
	assert.Equal(t, line, decoded[seen](t, out))

	for args, want := range map[string]string{
		"who":                             "one path is needed",
		"who a b":                         "one path is needed",
		"who locks":                       "invalid path",
		"who / -o xml":                    "table, json or jsonl",
		"who / --watch -o json":           "a line of JSON for each change",
		"who / --nodes -1":                "out of range|not from 0",
		"locks / /x":                      "one path is needed",
		"why":                             "one path is needed",
		"doctor x":                        "takes no arguments",
		"doctor --probe nowhere":          "invalid path",
		"locks /nowhere --output  table":  "",
		"who /locks --connect-timeout -s": "invalid argument",
	} {
		code, _, err := b.runs(strings.Fields(args)...)
		if want == "" {
			assert.Equal(t, 1, code, "%s: %s", args, err)
			continue
		}
		assert.Equal(t, 124, code, "%s: %s", args, err)
		assert.Regexp(t, want, err, args)
	}
	for _, p := range []*proc{holder, waiter} {
		p.signal(syscall.SIGTERM)
		p.code()
	}
	b.atRest()
}

// On a terminal a line is drawn again whenever it changes, as far as there is room for it.
func TestWhoWatches(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	screen, watching := b.onScreen(60, 6, "who", path, "--watch")
	b.shows(screen, "there is no node")
	changes := b.start("who", path, "--watch", "-o", "jsonl")
	b.soon("the first line", func() bool { return changes.stdout() != "" })
	var held []*proc
	for i := range 5 {
		b.env = append(b.env, fmt.Sprint("CURATOR_ID=process-", i))
		held = append(held, b.start("lock", path, "--", "sleep", "600"))
		eventually(t, "in line", func() bool { return len(b.line()) == i+1 })
	}
	text := ""
	b.soon("as much as there is room for", func() bool {
		text = screen.text()
		return strings.Contains(text, "1 hold, 4 wait") && strings.HasSuffix(text, "more lines")
	})
	rows := strings.Split(text, "\n")
	assert.Len(t, rows, 5, text)
	for _, row := range rows {
		assert.LessOrEqual(t, len([]rune(row)), 60)
	}
	assert.NotContains(t, text, "there is no node")
	assert.NotContains(t, text, "unknown sequence")
	for _, p := range held[:4] {
		p.signal(syscall.SIGTERM)
		assert.Equal(t, 143, p.code())
	}
	b.soon("drawn anew, and nothing is left of the longer text", func() bool {
		text := screen.text()
		return strings.Contains(text, "1 hold, 0 wait") && strings.Count(text, "\n") == 2
	})
	b.soon("the last change", func() bool {
		lines := strings.Split(changes.stdout(), "\n")
		line := decoded[seen](t, lines[len(lines)-1])
		return len(line.Holders) == 1 && len(line.Waiting) == 0 && line.Holders[0].Data == "process-4"
	})
	last := ""
	for _, line := range strings.Split(changes.stdout(), "\n") {
		at := decoded[seen](t, line).At
		assert.NotEmpty(t, at)
		assert.NotEqual(t, last, strings.Replace(line, at, "", 1), "each is a change")
		last = strings.Replace(line, at, "", 1)
	}
	screen.presses(b, ctrlC)
	assert.Equal(t, 130, watching.code())
	changes.signal(syscall.SIGTERM)
	assert.Equal(t, 143, changes.code())
	held[4].signal(syscall.SIGTERM)
	held[4].code()
	b.atRest()
}

func TestLocks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	code, out, err := b.runs("locks", "/")
	assert.Zero(t, code, err)
	assert.Equal(t, "/: no holders, no waiters", out)
	screen, watching := b.onScreen(120, 24, "locks", "/", "--watch")
	b.shows(screen, "no holders, no waiters")
	changes := b.start("locks", "/", "-w", "-o", "jsonl")

	var all []*proc
	run := func(want int, args ...string) {
		all = append(all, b.start(append(args, "--", "sleep", "600")...))
		b.soon("in line", func() bool {
			n := 0
			for path, node := range b.srv.Tree() {
				if node.Stat.EphemeralOwner != 0 && strings.Contains(path, "lock-") || strings.Contains(path, "lease-") {
					n++
				}
			}
			return n == want
		})
	}
	run(1, "lock", "/app/held")
	run(2, "lock", "/app/first")
	run(3, "lock", "/app/first") // waits longest
	run(4, "lock", "/app/second")
	run(5, "lock", "/app/second")
	run(6, "permit", "/app/permits", "--of", "1")
	b.shows(screen, "/app/held", "/app/first", "/app/second", "/app/permits", "semaphore")
	code, out, err = b.runs("locks", "/")
	assert.Zero(t, code, err)
	var paths []string
	for _, row := range strings.Split(out, "\n") {
		paths = append(paths, strings.Fields(row)[0])
	}
	assert.Equal(t, []string{"PATH", "/app/first", "/app/second", "/app/held", "/app/permits"}, paths)
	assert.Regexp(t, `(?m)^/app/first +mutex +1 +\d+\S* +1 +\d+\S* +\S+$`, out)

	code, out, err = b.runs("locks", "/app", "-o", "json", "--nodes", "3")
	assert.Zero(t, code, err)
	assert.NotEmpty(t, decoded[struct{ Stopped string }](t, out).Stopped)
	code, out, err = b.runs("locks", "/app", "-o", "jsonl", "--nodes", "3")
	assert.Zero(t, code, err)
	assert.Contains(t, err, "there may be more")
	assert.NotContains(t, out, "there may be more")

	b.env = append(b.env, "CURATOR_SERVERS="+b.srv.Addr()+"/app")
	code, out, err = b.runs("locks", "/", "-o", "jsonl")
	assert.Zero(t, code, err)
	assert.Equal(t, 4, len(strings.Split(out, "\n")), "below the chroot: %s", out)
	assert.Equal(t, "/first", decoded[seen](t, strings.Split(out, "\n")[0]).Path)

	for _, p := range all {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range all {
		p.code()
	}
	b.shows(screen, "no holders, no waiters")
	b.soon("told of the end of each", func() bool {
		over := map[string]bool{}
		for _, line := range strings.Split(changes.stdout(), "\n") {
			l := decoded[seen](t, line)
			over[l.Path] = l.Kind == "idle"
		}
		n := 0
		for _, is := range over {
			if is {
				n++
			}
		}
		return n == 4 && len(over) == 4
	})
	screen.presses(b, ctrlC)
	assert.Equal(t, 130, watching.code())
	changes.signal(syscall.SIGINT)
	assert.Equal(t, 130, changes.code())
	b.atRest()
}

// Two programs that each wait for the other's lock.
func TestWhy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	code, out, err := b.runs("why", "/locks/a")
	assert.Zero(t, code, err)
	assert.Contains(t, out, "there is no node")

	holder := b.start("lock", "/locks/a", "--id", "holder", "--", "sleep", "600")
	line := func(path string) int { names, _ := b.srv.Children(path); return len(names) }
	eventually(t, "held", func() bool { return line("/locks/a") == 1 })
	waiter := b.start("lock", "/locks/a", "--id", "waiter", "--", "sleep", "600")
	eventually(t, "waiting", func() bool { return line("/locks/a") == 2 })
	screen, p := b.onScreen(120, 24, "why", "/locks/a")
	assert.Zero(t, p.code())
	b.shows(screen, "/locks/a: mutex, 1 hold, 1 wait", "(waiter) has waited", "at /locks/a for session", "(holder)",
		"no problems found")

	require.NoError(t, b.srv.Create("/locks/a/stranger", nil))
	code, out, err = b.runs("why", "/locks/a", "-o", "json")
	assert.Equal(t, 1, code, err)
	assert.Empty(t, err)
	why := decoded[struct {
		Lines    []seen
		Chains   [][]struct{ Waiter, Ahead struct{ Data string } }
		Findings []struct{ Trouble, Path, Text string }
	}](t, out)
	require.Len(t, why.Findings, 1)
	assert.Equal(t, "foreign children", why.Findings[0].Trouble)
	require.Len(t, why.Chains, 1)
	assert.Equal(t, "waiter", why.Chains[0][0].Waiter.Data)
	assert.Equal(t, "holder", why.Chains[0][0].Ahead.Data)
	require.NoError(t, b.srv.Delete("/locks/a/stranger"))

	code, out, err = b.runs("why", "/locks/a", "--root", "/nowhere")
	assert.Equal(t, 1, code, out)
	assert.Contains(t, err, "--root /nowhere does not exist")
	assert.NotContains(t, err, "give --root", "another root is not what is missing")
	for _, p := range []*proc{holder, waiter} {
		p.signal(syscall.SIGTERM)
		p.code()
	}

	b.deadlock()
	screen, p = b.onScreen(200, 24, "why", "/locks/a")
	assert.Equal(t, 1, p.code())
	b.shows(screen, "possible deadlock: /locks/", "2 sessions wait for each other: ", "without a deadlock", "checking again in 5s")
	code, out, err = b.runs("why", "/locks", "-o", "jsonl")
	assert.Equal(t, 1, code)
	assert.Empty(t, err)
	assert.Contains(t, out, `"trouble":"possible deadlock"`)
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	screen, p := b.onScreen(150, 30, "doctor", "--probe", "/")
	assert.Equal(t, 1, p.code())
	b.shows(screen, "standalone", "500ms", "1s to 1m0s", "30s granted, 30s asked for", "bound: standalone server",
		"world:anyone:cdrwa (all clients have all permissions)", "advice: the server is standalone", "servers' clock")
	for node := range b.srv.Tree() {
		assert.NotContains(t, node, "probe")
	}
	code, out, err := b.runs("doctor", "-o", "jsonl")
	assert.Equal(t, 1, code, err)
	assert.Empty(t, err)
	report := decoded[struct {
		Servers []struct {
			Role       string
			TickTimeMs int
		}
		Rule   string
		Advice []string
		ACL    []string
	}](t, out)
	require.Len(t, report.Servers, 1)
	assert.Equal(t, "standalone", report.Servers[0].Role)
	assert.Equal(t, 500, report.Servers[0].TickTimeMs)
	assert.Len(t, report.Advice, 1)
	assert.Equal(t, []string{"world:anyone:cdrwa"}, report.ACL)
	b.atRest()
}

// A failed write ends a watch; it does not hang.
func TestAWatchThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		full, err = os.Open(os.DevNull) // cannot be written either, as it is open for reading
		require.NoError(t, err)
	}
	defer full.Close()
	b := newBed(t)
	for _, args := range [][]string{
		{"who", path, "-w"}, {"locks", "/", "-w"}, {"who", path, "-w", "-o", "jsonl"}, {"who", path, "-o", "json"},
		{"who", path}, {"locks", "/"}, {"why", path}, {"doctor"}, {"doctor", "-o", "jsonl"},
	} {
		b.out = full
		p := b.start(args...)
		assert.Equal(t, 125, p.code(), args)
		assert.NotEmpty(t, p.stderr(), args)
	}
	b.atRest()
}
