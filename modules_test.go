package curator_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ourPath = "github.com/go-curator/curator"

// modules returns the directories that have a go.mod.
func modules(t *testing.T) []string {
	t.Helper()
	var dirs []string
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if err == nil && d.Name() == "go.mod" {
			dirs = append(dirs, filepath.Dir(path))
		}
		return err
	}))
	return dirs
}

// modFile is what go mod edit -json and go work edit -json print.
type modFile struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Use     []struct{ DiskPath string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func parsed(t *testing.T, kind, file string) modFile {
	t.Helper()
	cmd := exec.Command("go", kind, "edit", "-json", filepath.Base(file))
	cmd.Dir = filepath.Dir(file)
	out, err := cmd.Output()
	require.NoError(t, err, file)
	var f modFile
	require.NoError(t, json.Unmarshal(out, &f), file)
	return f
}

// ADR 0056: users get every module by its version, and in the clone each is built with the clone's modules.
func TestModulesRequireEachOtherByVersion(t *testing.T) {
	dirs := modules(t)
	assert.Contains(t, dirs, "cmd")
	versions := map[string]string{} // a version we require, and by whom
	for _, dir := range dirs {
		mod := parsed(t, "mod", filepath.Join(dir, "go.mod"))
		assert.Equal(t, strings.TrimSuffix(ourPath+"/"+filepath.ToSlash(dir), "/."), mod.Module.Path)
		assert.Empty(t, mod.Replace, "%s: replacements belong in go.work: go install refuses a module that has them", dir)
		var replaced, required []string
		for _, r := range mod.Require {
			if strings.HasPrefix(r.Path+"/", ourPath+"/") {
				required = append(required, r.Path)
				versions[r.Version] = dir
			}
		}
		work := parsed(t, "work", filepath.Join(dir, "go.work"))
		if assert.Len(t, work.Use, 1, dir) {
			assert.Equal(t, ".", work.Use[0].DiskPath, dir)
		}
		for _, r := range work.Replace {
			replaced = append(replaced, r.Old.Path)
			assert.Empty(t, r.Old.Version, "%s: go.work replaces every version of %s", dir, r.Old.Path)
			there := filepath.Clean(filepath.Join(dir, r.New.Path))
			want := strings.TrimPrefix(strings.TrimPrefix(r.Old.Path, ourPath), "/")
			assert.Equal(t, filepath.Clean(filepath.FromSlash(want)), there, dir)
		}
		slices.Sort(required)
		slices.Sort(replaced)
		assert.Equal(t, required, replaced, "%s: go.work replaces what go.mod requires of this repository", dir)
		sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		assert.NotContains(t, string(sums), ourPath, "%s: go.sum cannot know what will be released; use scripts/tidy", dir)
	}
	assert.Len(t, versions, 1, "all of this repository is required at one version")
}
