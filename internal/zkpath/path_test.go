package zkpath_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/internal/zkpath"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The expected results were recorded by running ZooKeeper 3.8.0's own PathUtils.
var verdicts = []struct {
	path              string
	plain, sequential bool
}{
	{"", false, false},
	{"/", true, true},
	{"a", false, false},
	{"/a", true, true},
	{"/a/b", true, true},
	{"/a/", false, true},
	{"//", false, false},
	{"/a//b", false, false},
	{"/.", false, true},
	{"/..", false, true},
	{"/./a", false, false},
	{"/../a", false, false},
	{"/a/.", false, true},
	{"/a/..", false, true},
	{"/a/./b", false, false},
	{"/a/../b", false, false},
	{"/...", true, true},
	{"/.a", true, true},
	{"/a.", true, true},
	{"/..a", true, true},
	{"/a..", true, true},
	{"/ a", true, true},
	{"/a\x00", false, false},
	{"/a\x01b", false, false},
	{"/a\x1fb", false, false},
	{"/a\x20b", true, true},
	{"/a\x7eb", true, true},
	{"/a\x7fb", false, false},
	{"/a\u0080b", false, false},
	{"/a\u009fb", false, false},
	{"/a\u00a0b", true, true},
	{"/käse/日本", true, true},
	{"/a\ud7ffb", true, true},
	{"/a\ue000b", false, false},
	{"/a\uf8ffb", false, false},
	{"/a\uf900b", true, true},
	{"/a\uffefb", true, true},
	{"/a\ufff0b", false, false},
	{"/a\ufffdb", false, false},
	{"/a\uffffb", false, false},
	{"/a\U0001f512", false, false},
	{"/a\xffb", false, false},
}

func TestValidate(t *testing.T) {
	for _, v := range verdicts {
		for sequential, want := range map[bool]bool{false: v.plain, true: v.sequential} {
			err := zkpath.Validate(v.path, sequential)
			if want {
				assert.NoError(t, err, "%q, sequential %v", v.path, sequential)
				continue
			}
			var invalid *zkpath.Error
			require.True(t, errors.As(err, &invalid), "%q, sequential %v: got %v", v.path, sequential, err)
			assert.Equal(t, v.path, invalid.Path)
			assert.NotEmpty(t, invalid.Reason)
		}
	}
}

func TestErrorSaysWhatIsWrongAndWhere(t *testing.T) {
	for path, want := range map[string]string{
		"":          `invalid path "": it is empty; the root is "/"`,
		"a":         `invalid path "a": it must start with "/"`,
		"/a/":       `invalid path "/a/": it must not end with "/" (only the path of a sequential node can)`,
		"/a//b":     `invalid path "/a//b": there is an empty name at byte 3; write one "/" instead of two`,
		"/ab/../c":  `invalid path "/ab/../c": the name ".." at byte 4 is reserved; write the path without it`,
		"/a/b\tc":   `invalid path "/a/b\tc": ZooKeeper does not allow the character U+0009 (at byte 4)`,
		"/a/b\xffc": `invalid path "/a/b\xffc": ZooKeeper does not allow the character U+FFFD (at byte 4)`,
	} {
		assert.EqualError(t, zkpath.Validate(path, false), want)
	}
}

// legal returns the same as Validate, by another way: as Java would, over UTF-16 units, and slowly.
func legal(path string, sequential bool) bool {
	if !utf8.ValidString(path) {
		return false
	}
	if sequential {
		path += "1"
	}
	for _, unit := range utf16.Encode([]rune(path)) {
		for _, bad := range [][2]uint16{{0, 0x1f}, {0x7f, 0x9f}, {0xd800, 0xf8ff}, {0xfff0, 0xffff}} {
			if unit >= bad[0] && unit <= bad[1] {
				return false
			}
		}
	}
	framed := path + "/"
	return path == "/" || strings.HasPrefix(path, "/") && !strings.Contains(framed, "//") &&
		!strings.Contains(framed, "/./") && !strings.Contains(framed, "/../")
}

func FuzzValidate(f *testing.F) {
	for _, v := range verdicts {
		f.Add(v.path, false)
		f.Add(v.path, true)
	}
	f.Fuzz(func(t *testing.T, path string, sequential bool) {
		err := zkpath.Validate(path, sequential)
		if want := legal(path, sequential); (err == nil) != want {
			t.Fatalf("Validate(%q, %v) = %v, want legal: %v", path, sequential, err, want)
		}
		if err == nil && !sequential { // taking a legal path apart and putting it together gives the same path
			if got := zkpath.Join("/", zkpath.Split(path)...); got != path {
				t.Fatalf("Join(Split(%q)) = %q", path, got)
			}
			if got := zkpath.Join(zkpath.Parent(path), zkpath.Base(path)); got != path {
				t.Fatalf("Join(Parent(%q), Base) = %q", path, got)
			}
		}
		_ = zkpath.Join(path, path, path) // nothing panics on an illegal one
		_ = zkpath.Parent(path)
		_ = zkpath.Base(path)
		_ = zkpath.Split(path)
	})
}

func TestJoin(t *testing.T) {
	for _, c := range []struct {
		parent string
		names  []string
		want   string
	}{
		{"/a", []string{"b"}, "/a/b"},
		{"/a/", []string{"/b"}, "/a/b"},
		{"a", []string{"b"}, "/a/b"},
		{"/", []string{"b"}, "/b"},
		{"", []string{"b"}, "/b"},
		{"", nil, "/"},
		{"", []string{""}, "/"},
		{"/", nil, "/"},
		{"/", []string{"/"}, "/"},
		{"/a", []string{"/"}, "/a"},
		{"/a", []string{""}, "/a"},
		{"/a", nil, "/a"},
		{"/a", []string{"b/c"}, "/a/b/c"},
		{"/a", []string{"b", "c", "d"}, "/a/b/c/d"},
		{"/a", []string{"b/", "/c"}, "/a/b/c"},
		{"/ns", []string{"/a/"}, "/ns/a/"}, // a sequential node without a name, below a namespace
	} {
		assert.Equal(t, c.want, zkpath.Join(c.parent, c.names...), "Join(%q, %q)", c.parent, c.names)
	}
}

func TestParentBaseSplit(t *testing.T) {
	for _, c := range []struct {
		path, parent, base string
		names              []string
	}{
		{"/", "/", "", nil},
		{"/a", "/", "a", []string{"a"}},
		{"/a/b", "/a", "b", []string{"a", "b"}},
		{"/a/b/c", "/a/b", "c", []string{"a", "b", "c"}},
		{"", "/", "", nil},
		{"a", "/", "a", []string{"a"}},
	} {
		assert.Equal(t, c.parent, zkpath.Parent(c.path), c.path)
		assert.Equal(t, c.base, zkpath.Base(c.path), c.path)
		assert.Equal(t, c.names, zkpath.Split(c.path), c.path)
	}
}

func BenchmarkValidate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := zkpath.Validate("/service/locks/orders/_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lock-0000000000",
			false); err != nil {
			b.Fatal(err)
		}
	}
}
