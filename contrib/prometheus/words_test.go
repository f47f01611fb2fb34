package curatorprom

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The documentation lists all words for results.
func TestResultsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "`result` and `cause` are `ok`")
	list, _, _ = strings.Cut(list, "or else `error`")
	for _, r := range results {
		if !strings.Contains(list, "`"+r.word+"`") {
			t.Errorf("docs/observability.md lacks %s", r.word)
		}
	}
	if n := strings.Count(list, "`") / 2; n != len(results) {
		t.Errorf("%d words, %d in docs/observability.md", len(results), n)
	}
}

// The reasons of state changes are the documented ones.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(text), "| `state_changes_total` |")
	row, _, _ = strings.Cut(row, "\n")
	var documented, known []string
	for _, word := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row, -1) {
		documented = append(documented, word[1])
	}
	for _, reasons := range stateReasons {
		known = append(known, reasons...)
	}
	slices.Sort(documented)
	slices.Sort(known)
	if known = slices.Compact(known); !slices.Equal(known, append([]string{""}, documented...)) {
		t.Errorf("%q, and %q in docs/observability.md", known, documented)
	}
}

// The names of operations are the framework's.
func TestOperationsAreTheFrameworks(t *testing.T) {
	files, err := filepath.Glob("../../framework/*.go")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`(?:\bname: |\bo\.name, .* = [\w.]+, |\.ensureNode\(ctx, )"(\w+)"`)
	var names []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, found := range name.FindAllStringSubmatch(string(source), -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Equal(names, operations) {
		t.Errorf("%q, and %q in zeros.go", names, operations)
	}
}
