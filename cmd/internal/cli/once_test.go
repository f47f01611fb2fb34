//go:build linux || darwin

package cli_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const job = "/cron/report"

// records returns the slots of the job that have a record.
func (b *bed) records() []string {
	names, _ := b.srv.Children(job + "/slots")
	return names
}

func TestOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	effect := []string{"--", "sh", "-c", `echo "$CURATOR_SLOT $CURATOR_PATH $CURATOR_NODE $CURATOR_TOKEN" >> "$0"`, b.file("effect")}
	once := func(slot string, more ...string) (int, string, string) {
		return b.runs(append(append([]string{"once", job, slot}, more...), effect...)...)
	}
	for range 2 {
		code, _, err := once("v1")
		assert.Zero(t, code, err)
		assert.Empty(t, err)
	}
	assert.Regexp(t, `^v1 /cron/report /cron/report/lock/\S+ \d+$`, text(b.file("effect")), "once")
	code, _, err := once("v2", "--at-most-once", "--jitter", "1ms", "--min-hold", "1ms")
	assert.Zero(t, code, err)
	code, _, err = once("@100000h", "--verbose")
	assert.Zero(t, code, err)
	code, _, err = once("@100000h", "--verbose")
	assert.Zero(t, code)
	assert.Contains(t, err, "was done before")
	assert.Len(t, b.records(), 3)

	for _, tt := range []struct {
		code int
		err  string
		args []string
	}{
		{124, "write curator once PATH SLOT", []string{"once", job, "--", "true"}},
		{124, "write curator once PATH SLOT", []string{"once", job, "a", "b", "--", "true"}},
		{124, "no interval", []string{"once", job, "@soon", "--", "true"}},
		{124, "no interval", []string{"once", job, "@-1h", "--", "true"}},
		{124, "a directory for jobs", []string{"once", "/report", "v1", "--", "true"}},
		{124, "invalid path", []string{"once", "cron/report", "v1", "--", "true"}},
		{124, "cannot be the name of a node", []string{"once", job, "a/b", "--", "true"}},
		{124, "negative", []string{"once", job, "a", "--wait", "-1s", "--", "true"}},
		{127, "command not found", []string{"once", job, "a", "--", "no-such-command"}},
		{3, "", []string{"once", job, "fails", "--", "sh", "-c", "exit 3"}},
		{0, "", []string{"once", job, "fails", "--", "true"}}, // a failed slot is free again
		{4, "", []string{"once", job, "fails at most once", "--at-most-once", "--", "sh", "-c", "exit 4"}},
		{121, "no process runs it again", []string{"once", job, "fails at most once", "--at-most-once", "--", "true"}},
	} {
		code, _, err := b.runs(tt.args...)
		assert.Equal(t, tt.code, code, "%q: %s", tt.args, err)
		assert.Contains(t, err, tt.err, "%q", tt.args)
	}
	b.atRest()
}

// While one process runs the job the others wait, for whatever slot. They do not run a slot that it has completed.
func TestOnceTakesTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.start("once", job, "v1", "--", "sh", "-c", `: > "$0"; read x < "$1"`, b.file("runs"), b.fifo("end"))
	b.appears("runs")
	code, _, err := b.runs("once", job, "v2", "--wait", "300ms", "--", "true")
	assert.Equal(t, 121, code, err)
	second := b.start("once", job, "v1", "--", "sh", "-c", `: > "$0"`, b.file("again"))
	b.inLine(2)
	b.writeTo("end")
	assert.Zero(t, first.code())
	assert.Zero(t, second.code())
	assert.NoFileExists(t, b.file("again"))
	assert.Equal(t, []string{"v1"}, b.records())
	b.atRest()
}

// The first process dies after its command has done its work, and before that is recorded: the next process runs the
// command again, but not before the first command has ended. With --at-most-once no process runs it again.
func TestOnceAndTheWinnerDies(t *testing.T) {
	for name, tt := range map[string]struct {
		more  []string
		again bool
		code  int
	}{
		"at least once": {nil, true, 0},
		"at most once":  {[]string{"--at-most-once"}, false, 121},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.env = append(b.env, "CURATOR_SESSION_TIMEOUT="+safetyTimeout.String())
			once := append([]string{"once", job, "v1"}, tt.more...)
			first := b.start(append(once, b.writer("first")...)...)
			b.writes("first")
			second := b.start(append(once, b.writer("second", "50ms")...)...)
			b.soon("two wait, or the second has seen the record", func() bool {
				select {
				case <-second.done:
					return true
				default:
					names, _ := b.srv.Children(job + "/lock")
					return len(names) == 2
				}
			})
			first.signal(syscall.SIGKILL)
			first.code()
			assert.Equal(t, tt.code, second.code(), second.stderr())
			one, two := read(t, b.file("first")), read(t, b.file("second"))
			assert.Equal(t, tt.again, two.first > 0)
			if tt.again {
				assert.Less(t, one.last, two.first)
			}
			assert.Equal(t, []string{"v1"}, b.records())
			b.atRest()
		})
	}
}

// A slot whose command was ended by a signal is not recorded as done, whatever its exit status.
func TestOnceAndASignal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("once", job, "v1", "--", "sh", "-c", `trap "exit 0" TERM; : > "$0"; while :; do sleep 0.02; done`, b.file("ready"))
	b.appears("ready")
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.code())
	assert.Contains(t, p.stderr(), "not recorded as done")
	assert.Empty(t, b.records())

	holder := b.start("once", job, "v1", "--", "sleep", "600")
	b.inLine(1)
	waiting := b.start("once", job, "v1", "--", "true")
	b.inLine(2)
	waiting.signal(syscall.SIGINT)
	assert.Equal(t, 130, waiting.code())
	holder.signal(syscall.SIGTERM)
	assert.Equal(t, 143, holder.code())
	b.atRest()
}

// inLine waits until there are n nodes in the job's line.
func (b *bed) inLine(n int) {
	b.Helper()
	b.soon("in line", func() bool {
		names, _ := b.srv.Children(job + "/lock")
		return len(names) == n
	})
}

func (b *bed) soon(what string, is func() bool) { b.Helper(); eventually(b.T, what, is) }

// fifo makes a named pipe.
func (b *bed) fifo(name string) string {
	require.NoError(b, syscall.Mkfifo(b.file(name), 0o600))
	return b.file(name)
}

// writeTo writes a line into a named pipe, which has a reader or will get one.
func (b *bed) writeTo(name string) {
	require.NoError(b, os.WriteFile(b.file(name), []byte("x\n"), 0o600))
}

// appears waits for a file.
func (b *bed) appears(name string) {
	b.Helper()
	b.soon(name, func() bool { _, err := os.Stat(b.file(name)); return err == nil })
}
