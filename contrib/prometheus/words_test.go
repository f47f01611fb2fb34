package curatorprom

import (
	"os"
	"strings"
	"testing"
)

// The words for how something ends are listed in the documentation.
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
