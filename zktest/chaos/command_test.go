package chaos_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest/chaos"
)

// Flags of a test's own, whose values do not print as they were set.
var (
	several []string
	doubled string
	plainly = flag.Bool("chaostest.plainly", false, "a flag without a value")
)

func init() {
	flag.Func("chaostest.several", "may be given again", func(s string) error { several = append(several, s); return nil })
	flag.Func("chaostest.doubled", "is kept twice", func(s string) error { doubled = s + s; return nil })
}

const oddName = `it's (a+b) "c" $d`

// TestOfAnotherProcess is run by TestThePrintedCommands.
func TestOfAnotherProcess(t *testing.T) {
	if len(several) == 0 {
		return
	}
	t.Run(oddName, func(t *testing.T) {
		t.Chdir(t.TempDir())
		chaos.Test(t, func(w *chaos.World) {
			process(w, "p", func(*chaos.Process) {
				w.Violate("flags", "%q %s %t %q", several, doubled, *plainly, flag.Args())
			})
		}, chaos.Config{Count: 1, Trouble: time.Second, Members: []int{1}})
	})
}

// Both commands in a report play the test again: a shell passes the name and the flags unchanged, wherever the binary
// is, and in whatever directory the test runs.
func TestThePrintedCommands(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // where the files are kept
	run := func(cmd *exec.Cmd) string {
		out, err := cmd.CombinedOutput()
		assert.IsType(t, new(exec.ExitError), err, "%s", out)
		assert.Contains(t, string(out), `flags: ["a b" "it's"] xx true ["rest"]`)
		return string(out)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	first := exec.Command("./"+filepath.Base(self), "-test.run=OfAnotherProcess", "-chaostest.several", "a b",
		"-chaostest.plainly", "--chaostest.several=it's", "-chaostest.doubled=x", "rest")
	first.Dir = filepath.Dir(self)
	out := run(first)
	kept := regexp.MustCompile(`kept in (\S+):`).FindStringSubmatch(out)
	require.NotNil(t, kept, out)
	info, err := os.Stat(kept[1])
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077, "others may not write there, nor read")
	for _, name := range []string{"again: ", "the seed as it was found: "} {
		_, command, found := strings.Cut(out, name)
		require.True(t, found, out)
		command, _, _ = strings.Cut(command, "\n")
		shell := exec.Command("sh", "-c", `go() { shift 2; pattern="$1"; shift 2; exec "$BINARY" "-test.run=$pattern" "$@"; }
`+command)
		shell.Env = append(os.Environ(), "BINARY="+self)
		assert.Contains(t, run(shell), "fails in replay 1", command)
	}
}

// A process that plays schedules ends with its parent, also if a schedule does not end.
func TestAWorkerEndsWithItsParent(t *testing.T) {
	if file := os.Getenv("CHAOSTEST_ENDLESS"); file != "" {
		chaos.Test(t, func(w *chaos.World) {
			w.Start("p", func(*chaos.Process) {
				for {
					_ = os.WriteFile(file, nil, 0o600)
				}
			})
		}, chaos.Config{Count: 1})
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "alive")
	parent := exec.Command(self, "-test.run=^TestAWorkerEndsWithItsParent$")
	parent.Env = append(os.Environ(), "CHAOSTEST_ENDLESS="+file)
	require.NoError(t, parent.Start())
	alive := func() bool { _, err := os.Stat(file); return err == nil }
	require.Eventually(t, alive, time.Minute, 10*time.Millisecond)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	// It writes the file again for as long as it lives.
	require.Eventually(t, func() bool {
		_ = os.Remove(file)
		time.Sleep(100 * time.Millisecond)
		return !alive()
	}, time.Minute, 100*time.Millisecond)
}
