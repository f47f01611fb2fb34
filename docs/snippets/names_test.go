package snippets

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every name of Curator's has one row, and there is no row for anything else.
func TestEveryNameOfCuratorHasARow(t *testing.T) {
	var want []string
	for line := range strings.Lines(read(t, "curator-names.txt")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	assert.Empty(t, twice(want), "in the list twice")
	require.Greater(t, len(want), 500, "the list is there")

	var have []string
	for _, r := range rows(read(t, fromCurator)) {
		have = append(have, r.names...)
	}
	assert.Empty(t, twice(have), "in two rows")
	assert.Empty(t, without(want, have), "in the list, and without a row")
	assert.Empty(t, without(have, want), "has a row, and is not in the list")
}

// As for Curator; here the list is what the library exports.
func TestEveryFunctionOfGoZookeeperHasARow(t *testing.T) {
	want := []string{"DNSHostProvider"}
	for _, of := range []reflect.Type{reflect.TypeFor[*zk.Conn](), reflect.TypeFor[*zk.Lock]()} {
		for m := range of.NumMethod() {
			want = append(want, of.Elem().Name()+"."+of.Method(m).Name)
		}
	}
	dir, err := build.Import("github.com/go-zookeeper/zk", ".", 0)
	require.NoError(t, err)
	for _, name := range dir.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir.Dir, name), nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
				want = append(want, f.Name.Name)
			}
		}
	}
	var have []string
	for _, r := range rows(read(t, fromGoZookeeper)) {
		have = append(have, r.names...)
	}
	assert.Empty(t, twice(have), "in two rows")
	assert.Empty(t, without(want, have), "exported, and without a row")
	assert.Empty(t, without(have, want), "has a row, and is not exported")
}

// A row says what is here, or why there is nothing.
func TestEveryRowSaysSomething(t *testing.T) {
	for _, file := range []string{fromCurator, fromGoZookeeper} {
		all := rows(read(t, file))
		require.NotEmpty(t, all)
		for _, r := range all {
			assert.NotEmpty(t, r.names, "%s:%d: no name", file, r.line)
			switch r.here {
			case "not built", "not needed":
				if file == fromCurator {
					assert.NotEmpty(t, r.known, "%s:%d: nothing, and no reason", file, r.line)
				}
			default:
				assert.NotEmpty(t, ours(r.here), "%s:%d: nothing that can be checked", file, r.line)
				assert.ElementsMatch(t, ours(r.here), spans(r.here),
					"%s:%d: not an identifier of this module", file, r.line)
			}
		}
	}
}

var (
	link       = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	unanchored = regexp.MustCompile(`[^a-z0-9_ -]`) // what a heading's anchor leaves out
)

// Links within the tree lead somewhere, and so do those to headings.
func TestLinksLeadSomewhere(t *testing.T) {
	found := 0
	for _, file := range documents(t) {
		text := read(t, file)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
				_, err := os.Stat(target)
				assert.NoError(t, err, "%s links to %s", file, m[0])
			}
			if m[2] != "" {
				assert.Contains(t, headings(read(t, target)), m[2], "%s links to %s", file, m[0])
			}
		}
	}
	assert.Greater(t, found, 100)
}

// documents are all of the repository.
func documents(t *testing.T) (files []string) {
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			files = append(files, path)
		}
		return nil
	}))
	require.Contains(t, files, readme)
	require.Contains(t, files, "../../docs/README.md")
	return files
}

func headings(text string) (all []string) {
	for line := range strings.Lines(text) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if ok && strings.HasPrefix(line, "#") {
			title = strings.ToLower(strings.TrimSpace(title))
			title = unanchored.ReplaceAllString(title, "")
			all = append(all, "#"+strings.ReplaceAll(title, " ", "-"))
		}
	}
	return all
}

func twice(names []string) (all []string) {
	seen := map[string]int{}
	for _, n := range names {
		if seen[n]++; seen[n] == 2 {
			all = append(all, n)
		}
	}
	return all
}

// without returns what is in some and not in others.
func without(some, others []string) []string {
	left := map[string]bool{}
	for _, n := range some {
		left[n] = true
	}
	for _, n := range others {
		delete(left, n)
	}
	return slices.Sorted(maps.Keys(left))
}

// The checks find what they are for.
func TestTheChecksFindSomething(t *testing.T) {
	text := "| Curator | here | to know |\n|---|---|---|\n| `A`, `B` | `framework.New` | |\n\n" +
		"| x | y |\n|---|---|\n| `C` | `D` |\n"
	all := rows(text)
	require.Len(t, all, 1, "another table is not one of these")
	assert.Equal(t, row{line: 3, names: []string{"A", "B"}, here: "`framework.New`"}, all[0])
	assert.Equal(t, []string{"framework.New"}, ours(text))
	assert.Equal(t, []string{"A"}, twice([]string{"A", "B", "A", "A"}))
	assert.Equal(t, []string{"A"}, without([]string{"A", "B"}, []string{"B", "C"}))
	assert.Equal(t, []string{"#a-node-that-stays"}, headings("text\n## A node that stays\n"))
	assert.Equal(t, []string{"framework", "Client", "Create"}, symbol.FindStringSubmatch("framework.Client.Create(a)")[1:])
	framework := typesOf(t)["framework"][0]
	assert.True(t, has(framework, "Client", "Create") && has(framework, "New", "") && has(framework, "StateChange", "Epoch"))
	assert.False(t, has(framework, "Client", "Creates") || has(framework, "News", ""))
	assert.Equal(t, map[string]string{"x": "a\n\n\tb\n"}, marked(t, "\t// [x]\n\ta\n\n\t\tb\n\t// [end]\n"))
}
