package framework

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var rawCode = regexp.MustCompile(`\bcode -?[0-9]|error -[0-9]`)

// once checks that an error is read once: no phrase in it comes twice, and no number stands for a word.
func once(t *testing.T, err error) {
	t.Helper()
	if phrase := doubled(err.Error()); phrase != "" {
		t.Errorf("twice %q in: %v", phrase, err)
	}
	assert.NotRegexp(t, rawCode, err.Error())
}

// doubled returns a phrase between colons, semicolons and parentheses that a text has twice; "" if there is none.
func doubled(text string) string {
	seen := map[string]bool{}
	for _, phrase := range regexp.MustCompile(`: |; |, |\(|\)`).Split(text, -1) {
		phrase = strings.TrimSpace(phrase)
		if len(phrase) > 8 && seen[phrase] {
			return phrase
		}
		seen[phrase] = true
	}
	return ""
}

func TestDoubled(t *testing.T) {
	assert.Equal(t, "invalid path", doubled("cache: invalid path: invalid path: it is empty"))
	assert.Equal(t, "authentication failed", doubled("authentication failed (h:1: authentication failed)"))
	assert.Empty(t, doubled("getData /x: node does not exist"))
}
