package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every replacement still has its place in today's code, and the result is Go. scripts/explore also compiles it.
func TestEveryBugHasItsPlace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, overlay("../../..", dir))
	changed, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	assert.NotEmpty(t, changed)
	for _, file := range changed {
		_, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.AllErrors)
		assert.NoError(t, err)
	}
}

// The simulation or a model looks for every bug that exists, and the simulation for no other.
func TestEveryBugIsLookedFor(t *testing.T) {
	names := func(text, pattern string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	table, err := os.ReadFile("../mutants_test.go")
	require.NoError(t, err)
	clock, err := os.ReadFile("../../../internal/mutant/mutant.go") // it calls On itself
	require.NoError(t, err)
	simulated, all := names(string(table), `\{bug: "([^"]+)"`), names(text+string(clock), `(?:mutant\.|!)On\("([^"]+)"`)
	assert.Subset(t, all, simulated)
	explored := models(t)
	for _, bug := range all {
		if !slices.Contains(simulated, bug) {
			assert.Contains(t, explored, `"`+bug+`"`, "looked for by the simulation, or by a model")
		}
	}
}

// models returns the source of all models.
func models(t *testing.T) (source string) {
	require.NoError(t, filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if ok, _ := filepath.Match("explore*_test.go", d.Name()); err == nil && ok {
			var text []byte
			text, err = os.ReadFile(path)
			source += string(text)
		}
		return err
	}))
	return source
}

func TestAReplacementWithoutItsPlaceFails(t *testing.T) {
	source := "// A file.\npackage p\n\nfunc f() {\n\tone()\n\ttwo()\n\tone()\n}\n"
	change := func(text string) (string, error) {
		all, err := parse("head\n\n== p.go\n" + text)
		require.NoError(t, err)
		return apply(source, all)
	}
	changed, err := change(" func f() {\n-\tone()\n+\tthree()\n")
	require.NoError(t, err)
	assert.Equal(t, "// A file.\npackage p; import \"github.com/go-curator/curator/internal/mutant\"\n\nfunc f() {\n\tthree()\n\ttwo()\n\tone()\n}\n", changed)
	_, err = change("-\tone()\n+\tthree()\n")
	assert.ErrorContains(t, err, "found 2 times")
	_, err = change("-\tfour()\n+\tthree()\n")
	assert.ErrorContains(t, err, "found 0 times")
	_, err = change("+\tthree()\n")
	assert.ErrorContains(t, err, "nothing to replace")
	// in a function, also if the same lines are in another function, too
	for name, head := range map[string]string{"f": "func f() {", "(t).f": "func (t) f() {", "(*t).f": "func (x *t[K, V]) f() {"} {
		source = "package p\n\n" + head + "\n\tone()\n}\n\nfunc g() { one() }\n\nfunc h() {\n\tone()\n}\n"
		all, err := parse("head\n\n== p " + name + "\n-\tone()\n+\ttwo()\n")
		require.NoError(t, err)
		changed, err = apply(source, all)
		require.NoError(t, err)
		assert.Contains(t, changed, head+"\n\ttwo()\n}\n\nfunc g() { one() }\n\nfunc h() {\n\tone()\n")
	}
	dir := t.TempDir()
	for name, want := range map[string]string{"f": "", "g": "in 0 files", "h": "in 2 files"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package p\n\nfunc f() {}\n\nfunc h() {}\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "b.go"), []byte("package p\n\nfunc h() {}\n"), 0o600))
		file, err := replacement{place: ".", function: name}.file(dir)
		if want == "" {
			assert.NoError(t, err)
			assert.Equal(t, "./a.go", file)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
	_, err = parse("head\n\n== p.go\nthree()\n")
	assert.ErrorContains(t, err, "begins with none")
}
