package moving

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const document = "../../../docs/choosing-a-lock.md"

var (
	update = flag.Bool("update", false, "write the snippets into the document")

	snippet = regexp.MustCompile(`(?ms)^\s*// \[([^\]\n]+)\]\n(.*?)^\s*// \[end\]$`)
	block   = regexp.MustCompile("(?s)<!-- snippet: ([^\n]+) -->\n```go\n(.*?)```\n")
)

// The code in the document is the code that is compiled here, and all of it.
func TestTheCodeIsInTheDocument(t *testing.T) {
	source, err := os.ReadFile("moving_test.go")
	require.NoError(t, err)
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	snippets := map[string]string{}
	for _, m := range snippet.FindAllStringSubmatch(string(source), -1) {
		code := m[2]
		indent := code[:len(code)-len(strings.TrimLeft(code, "\t"))]
		snippets[m[1]] = strings.ReplaceAll("\n"+code, "\n"+indent, "\n")[1:]
	}
	require.NotEmpty(t, snippets)
	assert.Equal(t, strings.Count(string(text), "```go\n"), len(block.FindAllString(string(text), -1)), "code that is no snippet")
	var shown []string
	want := block.ReplaceAllStringFunc(string(text), func(old string) string {
		name := block.FindStringSubmatch(old)[1]
		assert.Contains(t, snippets, name)
		shown = append(shown, name)
		return "<!-- snippet: " + name + " -->\n```go\n" + snippets[name] + "```\n"
	})
	assert.ElementsMatch(t, slices.Collect(maps.Keys(snippets)), shown, "every snippet is shown once")
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(text), "it is not up to date: go test ./internal/moving -update")
}
