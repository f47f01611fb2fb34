package curator_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever runs go does so in the go.work next to the go.mod, whatever GOWORK says outside.
func TestScriptsUseTheModulesOwnWorkspace(t *testing.T) {
	runs := regexp.MustCompile(`(?m)^[^#\n]*\bgo (build|test|run|vet|list)\b`)
	own := regexp.MustCompile(`(?m)^export .*\bGOWORK *:?=(?: #.*)?$`)
	found := 0
	for _, pattern := range []string{"Makefile", "scripts/*", ".ci/*", "integration/run", "integration/setup", "integration/image/*"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil { // a directory
				continue
			}
			if runs.Match(text) || file == ".ci/run" {
				found++
				assert.Regexp(t, own, string(text), file)
			}
		}
	}
	assert.GreaterOrEqual(t, found, 7)
}

// The tests of every module are run by scripts/test, however deep it lies.
func TestEveryModuleIsTested(t *testing.T) {
	text, err := os.ReadFile("scripts/test")
	require.NoError(t, err)
	loop := regexp.MustCompile(`(?m)^\tfor dir in \$\((scripts/modules .*)\); do$`).FindSubmatch(text)
	require.NotNil(t, loop)
	found, err := exec.Command("bash", "-c", string(loop[1])).Output()
	require.NoError(t, err)
	tested := strings.Fields(string(found))
	// cmd is tested beside these. Those that need servers come later.
	require.Contains(t, string(text), "gotest cmd ")
	tested = append(tested, "cmd")
	for _, later := range []string{"contrib/fence/integration", "integration/operating", "integration"} {
		assert.Contains(t, string(text), later)
		tested = append(tested, later)
	}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() == "go.mod" && path != "go.mod":
			assert.Contains(t, tested, filepath.ToSlash(filepath.Dir(path)))
		}
		return nil
	}))
}

// What a script uses again, or locks, lies where nobody else can put anything in its place.
func TestScriptsTrustOnlyTheirOwn(t *testing.T) {
	shared := regexp.MustCompile(`(?m)^[^#\n]*>\s*"?(/run/lock|/tmp|/var/tmp|/dev/shm|\$\{?TMPDIR)`)
	for _, pattern := range []string{"scripts/*", ".ci/*", "integration/run", "integration/setup", "integration/image/*"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				assert.NotRegexp(t, shared, string(text), file)
			}
		}
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	run := func(command string, arg string) (string, error) {
		out, err := exec.Command("bash", "-c", `set -euo pipefail; die() { echo "$*"; exit 1; }; . integration/image/cache.sh; `+command+` "$1"`, "test", arg).CombinedOutput()
		return string(out), err
	}
	refused := func(path, why string) {
		out, err := run("private", path)
		assert.Error(t, err, path)
		assert.Contains(t, out, why, path)
	}
	out, err := run("private", at("new/cache"))
	require.NoError(t, err, out)
	info, err := os.Stat(at("new/cache"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	out, err = run("private", at("new/cache"))
	require.NoError(t, err, out)
	require.NoError(t, os.Symlink(at("new/cache"), at("link")))
	refused(at("link"), "is not a directory of")
	require.NoError(t, os.Symlink(at("nothing"), at("dangling")))
	refused(at("dangling"), "is not a directory of")
	require.NoError(t, os.WriteFile(at("file"), nil, 0o600))
	refused(at("file"), "is not a directory of")
	require.NoError(t, os.Mkdir(at("open"), 0o700))
	require.NoError(t, os.Chmod(at("open"), 0o777|os.ModeSticky))
	refused(at("open"), "can be written by others")

	_, err = run("intact", at("file"))
	assert.Error(t, err, "nobody has seen it")
	out, err = run("record", at("file"))
	require.NoError(t, err, out)
	out, err = run("intact", at("file"))
	require.NoError(t, err, out)
	require.NoError(t, os.WriteFile(at("file"), []byte("planted"), 0o600))
	_, err = run("intact", at("file"))
	assert.Error(t, err, "changed")
}
