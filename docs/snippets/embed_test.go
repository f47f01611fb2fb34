package snippets

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the snippets into the documents")

var (
	mark  = regexp.MustCompile(`(?m)^\s*// \[(.+)\]$`)
	block = regexp.MustCompile("(?s)<!-- snippet: ([^\n]+) -->\n```go\n(.*?)```\n")
)

// The code in the documents is the code that is compiled and run here.
func TestSnippetsAreInTheDocuments(t *testing.T) {
	snippets := map[string]string{}
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range append(files, "program/main.go", "../../integration/zkcontainer/guide_test.go") {
		if file == "embed_test.go" || file == "names_test.go" {
			continue
		}
		for name, code := range marked(t, read(t, file)) {
			require.NotContains(t, snippets, name, "two snippets of one name")
			snippets[name] = code
		}
	}

	var shown []string
	for _, file := range []string{fromCurator, fromGoZookeeper, readme, lost, errorsPage, realServer} {
		text := read(t, file)
		code, known := strings.Count(text, "```go\n"), len(block.FindAllString(text, -1))
		assert.Equal(t, code, known, "%s: code that is no snippet", file)
		want := block.ReplaceAllStringFunc(text, func(old string) string {
			name := block.FindStringSubmatch(old)[1]
			assert.Contains(t, snippets, name, file)
			shown = append(shown, name)
			return "<!-- snippet: " + name + " -->\n```go\n" + snippets[name] + "```\n"
		})
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		} else {
			assert.Equal(t, want, text, "%s is not up to date: go test ./docs/snippets -update", file)
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(snippets)), shown, "every snippet is shown once")
}

// The Java code in the documents is that of a class which integration/recipes tests.
func TestJavaIsInTheDocuments(t *testing.T) {
	_, class, found := strings.Cut(read(t, "../../integration/java/Fenced.java"), "\nclass ")
	require.True(t, found)
	assert.Equal(t, 1, strings.Count(read(t, fromCurator), "```java\nclass "+class+"```\n"))
	assert.Equal(t, 1, strings.Count(read(t, fromCurator), "```java\n"))
}

// The workflow that a document shows is made of what this repository's own uses, and of the image that tests run on.
func TestTheWorkflowIsInUse(t *testing.T) {
	_, workflow, found := strings.Cut(read(t, realServer), "```yaml\n")
	require.True(t, found)
	workflow, _, _ = strings.Cut(workflow, "```")
	own := read(t, "../../.github/workflows/ci.yml")
	used := regexp.MustCompile(`(runs-on: |uses: |go-version: ).*`).FindAllString(workflow, -1)
	require.Len(t, used, 4)
	for _, line := range used {
		assert.Contains(t, own, strings.TrimSuffix(line, "}"))
	}
	helper := read(t, "../../integration/zkcontainer/options.go") + read(t, "../../integration/zkcontainer/container.go")
	for _, name := range []string{"ZOOKEEPER_IMAGE", "zookeeper:3.9"} {
		assert.Contains(t, read(t, realServer), name)
		assert.Contains(t, helper, `"`+name+`"`)
	}
}

// marked returns what stands between "// [name]" and "// [end]", without its indentation.
func marked(t *testing.T, source string) map[string]string {
	all := map[string]string{}
	name, begin := "", 0
	for _, m := range mark.FindAllStringSubmatchIndex(source, -1) {
		switch word := source[m[2]:m[3]]; {
		case word == "end":
			require.NotEmpty(t, name, "an end without a beginning")
			code := strings.Trim(source[begin:m[0]], "\n") + "\n"
			indent := code[:len(code)-len(strings.TrimLeft(code, "\t"))]
			code = strings.ReplaceAll("\n"+code, "\n"+indent, "\n")[1:]
			all[name], name = strings.ReplaceAll(code, "\n\n\n", "\n\n"), ""
		default:
			require.Empty(t, name, "%q has no end", name)
			name, begin = word, m[1]
		}
	}
	require.Empty(t, name, "%q has no end", name)
	return all
}
