package zkpath_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/internal/zkpath"
)

const guid = "d93c3b7d-b92f-47f8-97dd-71e653f1e8cf"

// The expected results were recorded by running Curator 5.4's ProtectedUtils.
func TestParseProtected(t *testing.T) {
	for _, c := range []struct {
		name, guid, rest string
		ok               bool
	}{
		{"_c_" + guid + "-lock-0000000000", guid, "lock-0000000000", true},
		{"_c_" + guid + "-x", guid, "x", true},
		{"_c_" + guid + "--", guid, "-", true},
		{"_c_" + strings.ToUpper(guid) + "-x", strings.ToUpper(guid), "x", true},
		{"_c_AAAAFFFF" + guid[8:] + "-x", "AAAAFFFF" + guid[8:], "x", true},
		{"_c_" + guid + "-", "", "", false}, // nothing behind the prefix
		{"_c_" + guid, "", "", false},
		{"_c_" + guid + "x-x", "", "", false},
		{"_c_" + guid + "_x", "", "", false},
		{"_C_" + guid + "-x", "", "", false},
		{"_c_" + strings.ReplaceAll(guid, "-", "0") + "-x", "", "", false},
		{"_c_zzzzzzzz" + guid[8:] + "-x", "", "", false},
		{"_c_1-1-1-1-1234567890123456789012345678-x", "", "", false},
		{"_c_" + strings.ReplaceAll(guid, "-", "") + "-lock-0000000000", "", "", false}, // go-zookeeper's own form
		{"lock-0000000000", "", "", false},
		{"", "", "", false},
	} {
		id, rest, ok := zkpath.ParseProtected(c.name)
		assert.Equal(t, c.ok, ok, c.name)
		assert.Equal(t, c.guid, id, c.name)
		assert.Equal(t, c.rest, rest, c.name)
	}
}

func TestProtectIsCuratorsForm(t *testing.T) {
	assert.Equal(t, "_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lock-", zkpath.Protect(guid, "lock-"))
	for _, dir := range []string{"/", "/a/", "/a/b/", ""} {
		assert.Equal(t, dir+zkpath.Protect(guid, "lock-"), zkpath.ProtectLast(dir+"lock-", guid))
	}
}

func TestNewGUID(t *testing.T) {
	v8 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := zkpath.NewGUID()
		assert.Regexp(t, v8, id)
		assert.True(t, zkpath.IsOurGUID(id))
		assert.True(t, zkpath.IsOurs(zkpath.Protect(id, "lock-")))
		assert.False(t, seen[id], "%s came twice", id)
		seen[id] = true
	}
}

// UUIDs of Curator, and strings that are no UUID, are not taken for this library's.
func TestIsOurs(t *testing.T) {
	ours := guid[:14] + "8" + guid[15:]
	assert.True(t, zkpath.IsOurGUID(ours))
	for _, name := range []string{guid, ours[:35], ours + "0", "", "_c_" + ours + "-x"} {
		assert.False(t, zkpath.IsOurGUID(name), name)
	}
	for _, name := range []string{zkpath.Protect(guid, "x"), zkpath.Protect(ours, ""), ours, "lock-0000000001",
		""} {
		assert.False(t, zkpath.IsOurs(name), name)
	}
}

func FuzzParseProtected(f *testing.F) {
	f.Add("_c_" + guid + "-lock-0000000000")
	f.Add("_c_" + guid + "-")
	f.Add("lock-0000000000")
	f.Fuzz(func(t *testing.T, name string) {
		id, rest, ok := zkpath.ParseProtected(name)
		if ok && (zkpath.Protect(id, rest) != name || rest == "") {
			t.Fatalf("%q was taken apart into %q and %q", name, id, rest)
		}
		id, rest, ok = zkpath.ParseProtected(zkpath.Protect(guid, name))
		if want := name != ""; ok != want || ok && (id != guid || rest != name) {
			t.Fatalf("Protect(%q) came back as %q, %q, %v", name, id, rest, ok)
		}
	})
}
