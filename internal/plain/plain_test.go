package plain

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"lock-0000000001":        "lock-0000000001",
		"Größe 日本 \"a\" \\ %s":   "Größe 日本 \"a\" \\ %s",
		"a\x1b[2Jb":              `a\x1b[2Jb`,
		"a\nb\tc\r":              `a\nb\tc\r`,
		"\x7f\x00":               `\x7f\x00`,
		"\u0085\u009b":           `\u0085\u009b`,
		"\u202eevil\u2066\ufeff": `\u202eevil\u2066\ufeff`,
		"\xff\xfe":               `\xff\xfe`,
		"\ufffd":                 "\ufffd",
	} {
		assert.Equal(t, want, Text(in), "%q", in)
		assert.Equal(t, in == want, Is(in), "%q", in)
	}
}

func TestTextIsBounded(t *testing.T) {
	exact := strings.Repeat("x", Limit)
	assert.Equal(t, exact, Text(exact))
	for _, s := range []string{exact + "y", strings.Repeat("\x1b", Limit), strings.Repeat("ä", Limit),
		strings.Repeat("\xff", 1<<20)} {
		got := Text(s)
		assert.LessOrEqual(t, len(got), Limit)
		assert.True(t, strings.HasSuffix(got, "…"))
	}
}

func TestErrorKeepsWhatItIs(t *testing.T) {
	fine := errors.New("fine")
	assert.Same(t, fine, Error(fine))
	assert.NoError(t, Error(nil))
	evil := errors.New("a\x1bb")
	assert.ErrorIs(t, Error(evil), evil)
	assert.EqualError(t, Error(evil), `a\x1bb`)
	assert.Equal(t, "one\ntwo\\x1b", Lines("one\ntwo\x1b"))
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		assert.True(t, Is(got) && utf8.ValidString(got) && len(got) <= Limit, "%q", got)
		assert.Equal(t, got, Text(got), "twice is once")
	})
}
