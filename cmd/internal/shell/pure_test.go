package shell

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                nil,
		"  ls   /a ":                      {"ls", "/a"},
		`set /a '{"x": 1}'`:               {"set", "/a", `{"x": 1}`},
		`set /a "a\nb\u202e\xff" b\ c ''`: {"set", "/a", "a\nb\u202e\xff", "b c", ""},
		`a"b c"d'e f'g`:                   {"ab cde fg"},
		"日本 \\日":                          {"日本", "日"},
	} {
		found, _, err := splitWords(in)
		assert.NoError(t, err, in)
		var got []string
		for _, w := range found {
			got = append(got, w.value)
		}
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"'a", `"a`, `"\q"`, `a\`} {
		_, open, err := splitWords(in)
		assert.Error(t, err, in)
		assert.True(t, open, in)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("a b\t\"c\"\\'")
	f.Add("\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		found, _, err := splitWords(quoteWord(s) + " " + quoteWord(s))
		require.NoError(t, err)
		require.Len(t, found, 2)
		assert.Equal(t, s, found[0].value)
		assert.Equal(t, s, found[1].value)
		assert.Equal(t, len(quoteWord(s))+1, found[1].start)
		assert.Equal(t, printableName(quoteWord(s)), quoteWord(s), "what is completed is printable")
		_, _, _ = splitWords(s) // does not panic
	})
}

// All output is printable, and JSON keeps its meaning.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b\xff\u202e\U000e0001\n", uint8(3))
	f.Fuzz(func(t *testing.T, s string, cut uint8) {
		printable := func(s string) bool {
			for _, r := range s {
				if !strconv.IsPrint(r) && r != '\n' && r != '\t' {
					return false
				}
			}
			return utf8.ValidString(s)
		}
		assert.True(t, printable(printableText(s)))
		assert.True(t, printable(printableName(s)))
		assert.NotContains(t, printableName(s), "\n")
		encoded, err := json.Marshal(s)
		require.NoError(t, err)
		assert.True(t, printable(inJSON(string(encoded))))
		var before, after string
		require.NoError(t, json.Unmarshal(encoded, &before))
		require.NoError(t, json.Unmarshal([]byte(inJSON(string(encoded))), &after))
		assert.Equal(t, before, after)

		var out bytes.Buffer
		w := &safeTerminal{to: &out}
		at := min(int(cut), len(s))
		for _, part := range []string{s[:at], s[at:], "!"} {
			n, err := w.Write([]byte(part))
			require.NoError(t, err)
			assert.Equal(t, len(part), n)
		}
		assert.Equal(t, printableText(s+"!"), out.String(), "however it is cut")
	})
}

func TestAs(t *testing.T) {
	for in, want := range map[string]dataForm{
		"text": {false, "text"}, "gunzip": {true, "raw"}, "gunzip,json": {true, "json"}, "raw": {false, "raw"},
	} {
		var a dataForm
		require.NoError(t, a.Set(in))
		assert.Equal(t, want, a)
		assert.Equal(t, in, a.String())
	}
	for _, in := range []string{"", "xml", "json,gunzip", "gunzip,gunzip", "gunzip,json,text", "json,text"} {
		assert.Error(t, new(dataForm).Set(in), in)
	}
}

func FuzzACL(f *testing.F) {
	f.Add("digest:a:b=:cdrwa")
	f.Fuzz(func(t *testing.T, s string) {
		acl, err := parseACL([]string{s})
		if err != nil {
			assert.ErrorIs(t, err, ErrUsage)
			return
		}
		again, err := parseACL([]string{acl[0].Scheme + ":" + acl[0].ID + ":" + permissionLetters(acl[0].Perms)})
		require.NoError(t, err)
		assert.Equal(t, acl, again)
		assert.NotZero(t, acl[0].Perms&framework.PermAll)
	})
}

func TestHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "history")
	h := newHistory(file)
	for _, line := range []string{"one", "", "two", "two", " secret", "one more"} {
		h.Add(line)
	}
	h = newHistory(file)
	assert.Equal(t, []string{"one", "two", "one more"}, h.lines)
	assert.Equal(t, "one more", h.At(0))
	line, back, ok := h.olderLine("one", -1)
	assert.Equal(t, "one more", line)
	assert.True(t, ok)
	line, back, ok = h.olderLine("one", back)
	assert.Equal(t, "one", line)
	assert.True(t, ok)
	_, _, ok = h.olderLine("one", back)
	assert.False(t, ok)
	for i := range 2 * historyLength {
		h.Add(strconv.Itoa(i))
	}
	assert.Len(t, newHistory(file).lines, historyLength)
	assert.Len(t, newHistory(file).lines, historyLength, "and the file was cut")
	assert.Empty(t, newHistory("/no/such\x00file").lines)
}

func TestPathsInTheOrderOfATree(t *testing.T) {
	for _, less := range [][2]string{{"/a", "/a/b"}, {"/a/b", "/a-b"}, {"/a", "/b"}, {"/a/z", "/a!"}, {"/", "/a"}} {
		assert.Negative(t, comparePaths(less[0], less[1]), less)
		assert.Positive(t, comparePaths(less[1], less[0]), less)
	}
	var b strings.Builder
	drawTree(&b, []treeNode{{Path: "/", statMetadata: &statMetadata{}}, {Path: "/a", statMetadata: &statMetadata{}},
		{Path: "/a!", statMetadata: &statMetadata{}}, {Path: "/a/b", statMetadata: &statMetadata{}}})
	assert.Equal(t, "/\n  a\n    b\n  a!\n", b.String())
}
