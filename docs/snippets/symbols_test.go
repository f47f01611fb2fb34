package snippets

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fenced is a block of code in a document, which is compiled elsewhere or is no Go.
var fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// symbol is a name in code such as `framework.Client.Create` or `mutex.New(client, path)`.
var symbol = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:$|[^\w.])`)

// What documents name of a package of this module exists. The change log and the decisions also have names that are gone.
func TestWhatIsNamedExists(t *testing.T) {
	packages, found := typesOf(t), 0
	for _, file := range documents(t) {
		if path.Base(file) == "CHANGELOG.md" || strings.Contains(file, "/docs/adr/") {
			continue
		}
		for _, s := range spans(fenced.ReplaceAllString(read(t, file), "")) {
			m := symbol.FindStringSubmatch(s)
			if m == nil || packages[m[1]] == nil {
				continue
			}
			found++
			assert.True(t, slices.ContainsFunc(packages[m[1]], func(p *types.Package) bool { return has(p, m[2], m[3]) }),
				"%s: there is no %s", file, s)
		}
	}
	assert.Greater(t, found, 500)
}

// has reports whether a package has a name, and if member is not empty, whether the type of that name has the
// field or method.
func has(p *types.Package, name, member string) bool {
	o := p.Scope().Lookup(name)
	if o == nil || member == "" {
		return o != nil
	}
	of, _, _ := types.LookupFieldOrMethod(o.Type(), true, p, member)
	return of != nil
}

// typesOf returns the packages of this module by name, as the compiler has written them.
func typesOf(t *testing.T) map[string][]*types.Package {
	files, all := map[string]string{}, map[string][]*types.Package{}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	require.NoError(t, err)
	for line := range bytes.Lines(out) {
		name, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		files[name] = file
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(files[name])
	})
	for name, file := range files {
		if strings.HasPrefix(name, "github.com/go-curator/curator/") && file != "" {
			p, err := compiled.Import(name)
			require.NoError(t, err, name)
			all[p.Name()] = append(all[p.Name()], p)
		}
	}
	return all
}
