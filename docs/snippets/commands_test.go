package snippets

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	indented = regexp.MustCompile("(?m)^    .*$")
	making   = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
	going    = regexp.MustCompile(`\bgo (?:run|test|vet|build|install)(?: -[-\w=.]+| cmd)*((?: \./[\w./-]*)+)`)
	scripts  = regexp.MustCompile(`(?:^|\s)((?:scripts|integration|\.ci)/[\w./-]*\w)`)
	// modules are the directories in which documents have commands run.
	modules = []string{"", "cmd", "integration"}
)

// The targets of make, the directories that go is given, and the scripts, which documents name in code, are there.
func TestCommandsAreThere(t *testing.T) {
	makefile, found := read(t, "../../Makefile"), 0
	for _, file := range documents(t) {
		if path.Base(file) == "CHANGELOG.md" {
			continue
		}
		text := read(t, file)
		rest := fenced.ReplaceAllString(text, "")
		code := slices.Concat(fenced.FindAllString(text, -1), spans(rest), indented.FindAllString(rest, -1))
		for _, c := range code {
			for _, m := range making.FindAllStringSubmatch(c, -1) {
				found++
				assert.Contains(t, makefile, "\n"+m[1]+":", "%s: %s", file, m[0])
			}
			for _, m := range going.FindAllStringSubmatch(c, -1) {
				for _, dir := range strings.Fields(m[1]) {
					found++
					assert.True(t, slices.ContainsFunc(modules, func(module string) bool {
						return exists(module, strings.TrimSuffix(dir, "..."))
					}), "%s: %s", file, m[0])
				}
			}
			for _, m := range scripts.FindAllStringSubmatch(c, -1) {
				found++
				assert.True(t, exists(m[1]), "%s: %s", file, m[1])
			}
		}
	}
	assert.Greater(t, found, 60)
}

func exists(name ...string) bool {
	_, err := os.Stat(path.Join("../..", path.Join(name...)))
	return err == nil
}
