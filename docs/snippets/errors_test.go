package snippets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every exported error has its row, and no row is about another. A name without a package is an error of the
// framework, or one that recipes share.
func TestEveryErrorHasARow(t *testing.T) {
	named := map[string]bool{}
	for line := range strings.Lines(read(t, errorsPage)) {
		if first, ok := strings.CutPrefix(line, "| `"); ok {
			first, _, _ = strings.Cut(first, " |")
			for _, name := range spans("`" + first) {
				named[name] = false
			}
		}
	}
	require.Greater(t, len(named), 70)

	dirs, err := filepath.Glob("../../recipes/*")
	require.NoError(t, err)
	for _, dir := range append(dirs, "../../recipes/internal/line", "../../framework", "../../framework/tree", "../../cache", "../../retry", "../../contrib/fence") {
		for name, own := range sentinels(t, dir) {
			full := filepath.Base(dir) + "." + name
			if strings.HasSuffix(dir, "framework") || strings.HasSuffix(dir, "internal/line") {
				full = name
			}
			_, itself := named[full]
			_, shared := named[name]
			assert.True(t, itself || shared && !own, "%s lacks %s", errorsPage, full)
			if itself {
				named[full] = true
			}
		}
	}
	for name, exists := range named {
		assert.True(t, exists, "%s: there is no %s", errorsPage, name)
	}
}

// sentinels returns the names of the exported errors in a directory, and whether each is made there or is
// another package's.
func sentinels(t *testing.T, dir string) map[string]bool {
	all := map[string]bool{}
	files, err := filepath.Glob(dir + "/*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			vars, ok := d.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, s := range vars.Specs {
				v := s.(*ast.ValueSpec)
				for i, id := range v.Names {
					if strings.HasPrefix(id.Name, "Err") && i < len(v.Values) {
						_, made := v.Values[i].(*ast.CallExpr)
						all[id.Name] = made
					}
				}
			}
		}
	}
	return all
}
