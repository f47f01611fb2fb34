package snippets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table of the log has every message above DEBUG, with its level, and no other.
func TestTheLogIsDocumented(t *testing.T) {
	documented := map[string]string{}
	for _, line := range strings.Split(read(t, "../operating/log.md"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		level := strings.TrimSpace(cells[2])
		if slices.Contains([]string{"INFO", "WARN", "ERROR"}, level) {
			documented[strings.Trim(cells[1], " `")] = level
		}
	}
	logged := map[string][]string{}
	for _, dir := range []string{"framework", "internal/wire", "cache", "recipes"} {
		require.NoError(t, filepath.WalkDir("../../"+dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				messages(t, path, logged)
			}
			return err
		}))
	}
	for message, levels := range logged {
		assert.Contains(t, levels, documented[message], "docs/operating/log.md lacks %q", message)
	}
	for message := range documented {
		assert.Contains(t, logged, message, "nobody logs it")
	}
}

// messages collects what a file logs: calls of Info, Warn and Error with a message and pairs, and calls that
// give a slog.Level and a message.
func messages(t *testing.T, path string, found map[string][]string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if slices.Contains([]string{"Info", "Warn", "Error"}, sel.Sel.Name) {
			if message := text(call.Args[0]); message != "" {
				found[message] = append(found[message], strings.ToUpper(sel.Sel.Name))
			}
			return true
		}
		for i, arg := range call.Args[:len(call.Args)-1] {
			level, ok := arg.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if name, is := strings.CutPrefix(level.Sel.Name, "Level"); is {
				if message := text(call.Args[i+1]); message != "" {
					found[message] = append(found[message], strings.ToUpper(name))
				}
			}
		}
		return true
	})
}

// text is the string of an expression; what is not known ends as "…".
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, _ := strconv.Unquote(e.Value)
			return s
		}
	case *ast.BinaryExpr:
		if left := text(e.X); left != "" {
			if right := text(e.Y); right != "" {
				return left + right
			}
			return left + "…"
		}
	}
	return ""
}
