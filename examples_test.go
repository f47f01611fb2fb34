package curator_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutExample are the packages that users do not import, and those whose functions take the test's own testing.T.
var withoutExample = regexp.MustCompile(`(^|/)(internal|testdata|cmd|docs|examples|scripts|compare|integration|simulation)(/|$)|` +
	`^contrib/fence/(redis/redistest|sql/sqltest)$`)

// Every package that users import has an Example, and every Example an output: one without is compiled and not run.
func TestExamples(t *testing.T) {
	code, shown := map[string]bool{}, map[string]int{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if !strings.HasSuffix(path, "_test.go") {
			code[dir] = true
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, example := range doc.Examples([]*ast.File{file}...) {
			shown[dir]++
			assert.True(t, example.Output != "" || example.EmptyOutput, "%s: Example%s has no output", path, example.Name)
		}
		return nil
	}))
	for dir := range code {
		if dir != "." && !withoutExample.MatchString(dir) {
			assert.NotZero(t, shown[dir], "%s has no Example", dir)
		}
	}
	assert.NotZero(t, shown["integration/zkcontainer"])
	assert.Greater(t, len(shown), 25)
}
