package curator_test

import (
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

// Phrases that hide the term or the subject of a sentence (docs/glossary.md has the terms).
var hiding = regexp.MustCompile(strings.Join([]string{
	`\b[Ww]hat (is|was|has|had|they|it|the|a|an|others|we|comes|came|can|cannot|must|may|follows|belongs|goes|does|happens|would|becomes|became)\b`,
	`\bsays? (whether|that|of|so|what|who|how|why|which|when)\b`, // returns, reports whether
	`\b(is|are) (how|what|when|where|who|whom|why|whose)\b`,
	`\b(one that|one of which|those that|those who|those of|that of)\b`,
	`\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody)\b`, // a client, a contender
	`\b(for|of|in|to|with|by|from|at|on|under) which\b`,
	`\b(go|goes|going|went) on\b`, // continues
	`\btells?\b`,                  // reports
	`\bat once\b`,                 // immediately, at the same time
	`\b(hears?|heard) of\b`,       // is notified
	`\b[Oo]f (the )?(user|client|caller|server|session|library|writer|Java|Curator|holder|manager|others?|cache|process|one)'s\b`,
	`\bof (ours|theirs|yours|its own|one's own|their own)\b`,
	`\b(is|are|was|were) no [a-z]+`,
	`\b(anew|[Mm]eanwhile|[Bb]eside|[Pp]erhaps)\b`,
	`\b(is|are|was|were) to be \w+`,
}, "|"))

// Comments have few such phrases: at most so many per 10,000 words in a package, and in all packages together.
func TestWords(t *testing.T) {
	const inPackage, inAll = 60, 25 // they only fall
	const least = 300               // words; a package with fewer counts only for the sum
	type count struct{ words, phrases int }
	counts := map[string]count{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(path) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, group := range parsed.Comments {
			words := strings.Fields(group.Text())
			found := len(hiding.FindAllString(strings.Join(words, " "), -1))
			for _, of := range []string{filepath.ToSlash(filepath.Dir(path)), "all packages"} {
				counts[of] = count{counts[of].words + len(words), counts[of].phrases + found}
			}
		}
		return nil
	}))
	for of, c := range counts {
		most := inPackage
		if of == "all packages" {
			most = inAll
		}
		if c.words >= least {
			assert.LessOrEqual(t, c.phrases*10_000/c.words, most,
				"phrases per 10,000 words in the comments of %s: see docs/glossary.md for the terms", of)
		}
	}
}
