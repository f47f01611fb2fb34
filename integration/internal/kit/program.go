package kit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/child"
)

// Program is the built program curator, and its environment.
type Program struct {
	*testing.T
	file string
	Env  []string
}

// BuildProgram builds the program, for these servers.
func BuildProgram(t *testing.T, servers string) Program {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "curator")
	build := exec.Command("go", "build", "-C", filepath.Join(strings.TrimSpace(string(module)), "..", "cmd"),
		"-o", file, "./curator")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return Program{t, file, append(os.Environ(), "CURATOR_SERVERS="+servers)}
}

// In returns the program for a test below.
func (p Program) In(t *testing.T) Program { p.T = t; return p }

// With returns the program with one more variable in its environment: NAME=value.
func (p Program) With(variable string) Program {
	p.Env = append(append([]string(nil), p.Env...), variable)
	return p
}

func (p Program) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.file, args...)
	cmd.Env = p.Env
	return cmd
}

// Runs runs the program to its end, which comes within Patience. input is its standard input.
func (p Program) Runs(input string, args ...string) (code int, out, complaint string) {
	p.Helper()
	cmd := exec.CommandContext(Context(p), p.file, args...)
	cmd.Env = p.Env
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(p, err, &exit, "%q", args)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// OK runs it to a good end.
func (p Program) OK(args ...string) string {
	p.Helper()
	code, out, complaint := p.Runs("", args...)
	require.Zero(p, code, "%q: %s%s", args, out, complaint)
	return out
}

// Refused runs it to an end with status 1.
func (p Program) Refused(says string, args ...string) {
	p.Helper()
	code, out, complaint := p.Runs("", args...)
	assert.Equal(p, 1, code, "%q: %s%s", args, out, complaint)
	assert.Contains(p, complaint, says, "%q", args)
}

// Says runs a command that answers as JSON, and complains of nothing.
func (p Program) Says(to any, args ...string) (code int) {
	p.Helper()
	code, out, complaint := p.Runs("", append(args, "--output", "json")...)
	assert.Empty(p, complaint, args)
	require.NoError(p, json.Unmarshal([]byte(out), to), out)
	return code
}

// Starts runs a command until the test ends.
func (p Program) Starts(args ...string) *child.Process {
	p.Helper()
	return p.starts(p.command(args...))
}

func (p Program) starts(cmd *exec.Cmd) *child.Process {
	p.Helper()
	process, err := child.Start(cmd)
	require.NoError(p, err)
	p.Cleanup(func() {
		_ = process.Signal(syscall.SIGCONT)
		_ = process.Signal(syscall.SIGTERM)
		select {
		case <-process.Done():
		case <-time.After(30 * time.Second):
			process.Kill()
		}
	})
	return process
}

// Line is a line in the program's JSON.
type Line struct {
	Path, Kind       string
	Holders, Waiting []Participant
}

// Participant is a holder or a waiter.
type Participant struct{ Node, Session, Library, Data, Client string }

// Web starts "curator web", and returns where its page is.
func (p Program) Web(root string) (url string) {
	p.Helper()
	cmd := p.command("web", root, "--listen", "127.0.0.1:0")
	said, err := os.Create(filepath.Join(p.TempDir(), "said"))
	require.NoError(p, err)
	defer said.Close()
	cmd.Stdout = said
	p.starts(cmd)
	Soon(p.T, "the page is served", func() bool {
		text, err := os.ReadFile(said.Name())
		require.NoError(p, err)
		url = strings.TrimSpace(string(text))
		return strings.HasSuffix(string(text), "\n")
	})
	return url
}
