package snippets

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	fromCurator     = "../from-java-curator.md"
	fromGoZookeeper = "../from-go-zookeeper.md"
	readme          = "../../README.md"
	lost            = "../suspended-and-lost.md"
	errorsPage      = "../errors.md"
	realServer      = "../real-zookeeper.md"
)

var span = regexp.MustCompile("`([^`]+)`")

// row is a line of a table whose head is "… | here | to know".
type row struct {
	line  int
	names []string // of the first column
	here  string
	known string
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// rows returns the rows of all tables that translate: those with the columns "here" and "to know".
func rows(text string) (all []row) {
	in := false
	for i, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			in = false
		case len(cells) == 3 && cells[1] == "here" && cells[2] == "to know":
			in = true
		case in && !strings.HasPrefix(line, "|---"):
			r := row{line: i + 1}
			if len(cells) == 3 {
				r.here, r.known = cells[1], cells[2]
			}
			r.names = spans(cells[0])
			all = append(all, r)
		}
	}
	return all
}

func spans(text string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// ours are the identifiers of this module in a text: code that begins with one of its packages, as
// "framework.Client.Create".
func ours(text string) (all []string) {
	for _, s := range spans(text) {
		if identifier.MatchString(s) {
			all = append(all, s)
		}
	}
	return all
}

var identifier = regexp.MustCompile(
	`^(framework|tree|admin|retry|cache|zktest|mutex|queue|rwlock|semaphore|counter|leader|barrier|node|group|assignment|discovery)\.[A-Za-z]+(\.[A-Za-z]+)?$`)
