package curator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/go-curator/curator"

// rules say what each part of the house may import of this module. A part is a directory with all below it; the longest that
// matches counts, and its packages may import one another unless they stand apart. A new package needs a place in this table.
// Tests may import what they like; integration/, cmd/, compare/, and those in contrib/, contrib/fence/… too, are modules of their own.
var rules = []rule{
	{part: ".", may: nil},
	{part: "retry", may: []string{"internal/chance", "internal/flow"}},
	{part: "internal/chance", may: nil},
	{part: "internal/apart", may: nil},
	{part: "internal/fencing", may: nil},
	{part: "internal/flow", may: nil},
	{part: "internal/zkpath", may: nil},
	{part: "internal/plain", may: nil},
	{part: "internal/jute", may: nil},
	{part: "internal/wire", may: []string{"internal/chance", "internal/flow", "internal/jute", "internal/zkpath", "retry"}},
	{part: "internal/guest", may: []string{"internal/jute"}},
	{part: "framework", may: []string{"internal/apart", "internal/chance", "internal/fencing", "internal/flow", "internal/guest", "internal/plain", "internal/wire", "internal/jute", "internal/zkpath", "retry"}},
	{part: "framework/admin", may: []string{"framework"}},
	{part: "framework/tree", may: []string{"framework", "internal/plain", "internal/zkpath", "retry"}},
	{part: "recipes/internal/line", may: []string{"internal/apart", "internal/chance", "internal/fencing", "internal/flow", "internal/plain", "framework", "internal/zkpath", "retry"}},
	{part: "recipes/internal/mark", may: []string{"framework", "internal/zkpath", "recipes/internal/line"}},
	{part: "recipes", may: forRecipes, apart: true},
	{part: "recipes/counter", may: forRecipes},
	{part: "recipes/node", may: forRecipes},
	{part: "recipes/group", may: append([]string{"recipes/node", "cache"}, forRecipes...)},
	{part: "recipes/assignment", may: append([]string{"recipes/node", "cache"}, forRecipes...)},
	{part: "recipes/discovery", may: append([]string{"recipes/node", "cache"}, forRecipes...)},
	{part: "recipes/semaphore", may: append([]string{"recipes/counter"}, forRecipes...)}, // its number of leases
	{part: "cache", may: []string{"internal/flow", "internal/plain", "framework", "internal/zkpath", "retry"}},
	{part: "inspect", may: []string{"cache", "framework", "framework/tree", "internal/plain", "internal/zkpath"}},
	{part: "inspect/http", may: []string{"inspect", "cache", "framework", "internal/flow", "internal/plain", "internal/zkpath"}},
	// The in-process server shares only the wire format with the client: with more in common they would share their mistakes.
	{part: "zktest", may: []string{"internal/jute", "internal/plain", "internal/zkpath"}},
	{part: "zktest/chaos", may: []string{"internal/chance", "zktest"}},
	{part: "zktest/simulation", may: nil},                                       // nothing but tests, and the program that makes their deliberate bugs
	{part: "internal/mutant", may: nil},                                         // for those
	{part: "internal/explore", may: []string{"internal/mutant"}},                // for tests
	{part: "internal/golden", may: nil},                                         // for tests
	{part: "internal/hostile", may: nil},                                        // nothing but tests
	{part: "recipes/internal/recipetest", may: []string{"framework", "zktest"}}, // for tests
	{part: "examples", may: []string{anything}},
	{part: "docs", may: nil},
	{part: "docs/snippets/program", may: []string{"framework", "recipes"}}, // the program of README.md
}

var forRecipes = []string{"internal/apart", "internal/chance", "internal/fencing", "internal/flow", "internal/plain", "recipes/internal/line",
	"recipes/internal/mark", "framework", "internal/zkpath", "retry"}

// thirdParty are the modules that an importer of the library inherits.
var thirdParty = []string{"github.com/go-zookeeper/zk", "github.com/cenkalti/backoff/v4"}

const anything = "*"

type rule struct {
	part  string
	may   []string
	apart bool // packages of this part do not import each other
}

// pkg is the part of go list's answer that is looked at. Imports are those of the non-test code.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Module     *struct{ Path string }
}

func TestImportsPointDown(t *testing.T) {
	assert.Empty(t, violations(listed(t)))
}

// listed returns all packages of the module and whatever they need.
func listed(t *testing.T) []pkg {
	lookAround(t)
	var stderr bytes.Buffer
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Module", "./...")
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, "go list: %s", &stderr)

	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
	require.True(t, slices.ContainsFunc(pkgs, func(p pkg) bool { return p.ImportPath == module }), "go list did not list this module")
	return pkgs
}

// lookAround walks the tree for go test to see what this test depends on. Of the files that go list reads it knows nothing, and
// would go on answering "ok (cached)" after one of them changed.
func lookAround(t *testing.T) {
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return err
	}))
}

// violations returns a line for each import that goes against the rules.
func violations(pkgs []pkg) []string {
	var bad []string
	foreign := map[string]bool{} // packages of modules that nobody should inherit
	for _, p := range pkgs {
		_, ours := place(p.ImportPath)
		if !p.Standard && !ours && (p.Module == nil || !slices.Contains(thirdParty, p.Module.Path)) {
			foreign[p.ImportPath] = true
		}
	}
	for _, p := range pkgs {
		from, ours := place(p.ImportPath)
		if !ours {
			continue
		}
		r, ok := ruleFor(from)
		if !ok {
			bad = append(bad, fmt.Sprintf("%s has no place in the table of rules: give it one", from))
			continue
		}
		for _, imported := range p.Imports {
			to, ours := place(imported)
			switch {
			case foreign[imported]:
				bad = append(bad, fmt.Sprintf("%s imports %s: users would inherit it", from, imported))
			case ours && !r.allows(to):
				bad = append(bad, fmt.Sprintf("%s imports %s: not an arrow that points down", from, to))
			}
		}
	}
	return bad
}

// place returns the directory of a package of this module.
func place(importPath string) (dir string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func ruleFor(dir string) (best rule, found bool) {
	for _, r := range rules {
		if within(dir, r.part) && (!found || len(r.part) > len(best.part)) {
			best, found = r, true
		}
	}
	return best, found
}

func (r rule) allows(dir string) bool {
	to, _ := ruleFor(dir)
	if to.part == r.part {
		return !r.apart
	}
	return slices.Contains(r.may, anything) || slices.Contains(r.may, to.part)
}

func within(dir, part string) bool { return dir == part || strings.HasPrefix(dir, part+"/") }

// A check that finds nothing must be able to find something.
func TestViolationsAreFound(t *testing.T) {
	for _, c := range []struct{ from, imports, want string }{
		{"recipes/mutex", "recipes/internal/line", ""},
		{"recipes/mutex", "framework", ""},
		{"recipes/mutex", "retry", ""},
		{"recipes/mutex", "recipes/leader", "recipes/mutex imports recipes/leader: not an arrow that points down"},
		{"recipes/mutex", "internal/wire", "recipes/mutex imports internal/wire: not an arrow that points down"},
		{"recipes/internal/line", "recipes/mutex", "recipes/internal/line imports recipes/mutex: not an arrow that points down"},
		{"framework", "recipes/internal/line", "framework imports recipes/internal/line: not an arrow that points down"},
		{"internal/wire", "internal/jute", ""},
		{"internal/jute", "internal/wire", "internal/jute imports internal/wire: not an arrow that points down"},
		{"cache", "framework", ""},
		{"cache", "recipes/internal/line", "cache imports recipes/internal/line: not an arrow that points down"},
		{"zktest", "internal/jute", ""},
		{"zktest", "zktest/check", ""},
		{"zktest", "retry", "zktest imports retry: not an arrow that points down"},
		{"zktest/check", "framework", "zktest/check imports framework: not an arrow that points down"},
		{"retry", "framework", "retry imports framework: not an arrow that points down"},
		{"examples/quickstart", "zktest", ""},
		{"examples/quickstart", "recipes/mutex", ""},
		{"internal/nowhere", "retry", "internal/nowhere has no place in the table of rules: give it one"},
		{"framework2", "retry", "framework2 has no place in the table of rules: give it one"},
	} {
		got := violations([]pkg{{ImportPath: module + "/" + c.from, Imports: []string{"context", module + "/" + c.imports}}})
		assert.Equal(t, c.want, strings.Join(got, "\n"), "%s imports %s", c.from, c.imports)
	}

	testify, zk := "github.com/stretchr/testify", "github.com/go-zookeeper/zk"
	got := violations([]pkg{
		{ImportPath: "context", Standard: true},
		{ImportPath: zk, Module: &struct{ Path string }{zk}},
		{ImportPath: testify + "/assert", Module: &struct{ Path string }{testify}},
		{ImportPath: module + "/framework", Imports: []string{"context", zk, testify + "/assert"}},
	})
	assert.Equal(t, []string{"framework imports github.com/stretchr/testify/assert: users would inherit it"}, got)
}
