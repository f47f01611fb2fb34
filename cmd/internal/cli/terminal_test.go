//go:build linux || darwin

package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every command on a terminal: its output, its exit code, and that the contents of nodes do not control the terminal.
func TestEveryCommandOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	hostile := "data\x1b]0;owned\x07"
	require.NoError(t, b.srv.Create("/app", []byte(hostile)))
	require.NoError(t, b.srv.Create("/locks", nil))
	holder := b.start("lock", "/locks/held", "--id", hostile, "--", "sleep", "600")
	eventually(t, "held", func() bool { names, _ := b.srv.Children("/locks/held"); return len(names) == 1 })
	const interrupted, ctrlC = 130, "\x03"
	tried := map[string]bool{}
	for _, tt := range []struct {
		args  string
		shows string
		code  int
		keys  string // the keys that are pressed then
	}{
		{"ls /", "app", 0, ""},
		{"get /app", `data\x1b]0;owned\a`, 0, ""},
		{"stat /app", "version", 0, ""},
		{"tree /", "locks", 0, ""},
		{"create /new one", "/new", 0, ""},
		{"create /mine -e --hold", "/mine", interrupted, ctrlC},
		{"set /new two", "version 1", 0, ""},
		{"acl get /new", "world:anyone:cdrwa", 0, ""},
		{"acl set /new world:anyone:cdrwa", "version 1", 0, ""},
		{"watch /new", "watching /new", interrupted, ctrlC},
		{"dump /app", "dumped 1 nodes", 0, ""},
		{"restore /copy " + b.file("none"), "no such file", 124, ""},
		{"rm /new", "", 0, ""},
		{"rm /new", "does not exist", 1, ""},
		{"sync /", "", 0, ""},
		{"config", "standalone", 0, ""},
		{"reconfig --remove 4", "", 1, ""},
		{"ping", "leader", 0, ""},
		{"4lw ruok", "imok", 0, ""},
		{"shell", "curator> ", 0, "\x04"},
		{"who /locks/held", `data\x1b]0;owned\a`, 0, ""},
		{"who /locks/held --watch", `data\x1b]0;owned\a`, interrupted, ctrlC},
		{"locks", `data\x1b]0;owned\a`, 0, ""},
		{"why /locks/held", "1 hold", 0, ""},
		{"doctor", "advice", 1, ""},
		{"web /locks --listen 127.0.0.1:0", "http://127.0.0.1:", 0, ctrlC},
		{"serve --listen 127.0.0.1:0", "CURATOR_SERVERS=127.0.0.1:", 0, ctrlC},
		{"lock /locks/x -- echo ran", "ran", 0, ""},
		{"lock /locks/held -- echo ran", "", interrupted, ctrlC},
		{"lock /locks/held --try -- echo ran", "not acquired", 121, ""},
		{"permit /locks/p --of 1 -- echo ran", "ran", 0, ""},
		{"lead /locks/l --once -- echo ran", "ran", 0, ""},
		{"once /jobs/j today -- echo ran", "ran", 0, ""},
		{"man " + b.file("man1"), "", 0, ""},
		{"version", "curator ", 0, ""},
		{"help", "Exit codes", 0, ""},
		{"completion bash", "complete", 0, ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			tried[args[0]] = true
			own := *b
			own.T = t
			s := own.atPrompt(args...)
			s.shows(tt.shows)
			if tt.keys != "" && tt.shows == "" {
				eventually(t, "waiting", func() bool { return len(b.srv.Sessions()) == 2 })
			}
			s.types(tt.keys)
			assert.Equal(t, tt.code, s.code())
			assert.NotRegexp(t, "\x07|\x1b\\]", s.all())
		})
	}
	_, help, _ := b.runs("--help")
	for _, c := range regexp.MustCompile(`(?m)^  ([a-z0-9]+)  +[A-Z]`).FindAllStringSubmatch(help, -1) {
		assert.True(t, tried[c[1]], "%s is tried", c[1])
	}
	holder.signal(15)
	assert.Equal(t, 143, holder.code())
	b.atRest()
}
