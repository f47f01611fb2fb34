package shell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/zktest"
)

// Each step is a command with its input, its output, its error and a part of the error's text.
func TestStory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(data, []byte("from a file\x00\xff"), 0o600))
	for i, tt := range []struct {
		in, args, out string
		is            error
		says          string
	}{
		{args: "create /a/b one", is: shell.ErrNo, says: "--parents"},
		{args: "create /a/b one --parents", out: "/a/b\n"},
		{args: "create /a/b one", is: shell.ErrNo, says: "set PATH DATA"},
		{args: "create /a/b/s- -s", out: "/a/b/s-0000000000\n"},
		{args: "create /a/b/s- --sequential", out: "/a/b/s-0000000001\n"},
		{args: "get /a/b", out: "one"},
		{args: "get /a/b/s-0000000000", out: ""}, // and not the client's default data
		{args: "get /a/b --as text", out: "one\n"},
		{args: "get /a/b --as hex", out: "00000000  6f 6e 65                                          |one|\n"},
		{args: "get /a/b --as json", is: shell.ErrNo, says: "--as text"},
		{args: "get /a/b --as gunzip", is: shell.ErrNo, says: "not compressed"},
		{args: "get /a/b --as xml", says: "gunzip,json"},
		{args: "get /a/b --output yaml", says: "jsonl"},
		{args: "get /a", out: ""},
		{args: "get /none", is: shell.ErrNo, says: "does not exist"},
		{args: "get none", is: framework.ErrInvalidPath, says: "invalid path"},
		{args: "get", is: shell.ErrUsage, says: "curator get PATH"},
		{args: "get /a /b", is: shell.ErrUsage, says: "too many"},
		{args: "ls", out: "a\nzookeeper\n"},
		{args: "ls /a/b", out: "s-0000000000\ns-0000000001\n"},
		{args: "ls /a/b -o json", out: "[\n  {\n    \"name\": \"s-0000000000\"\n  },\n  {\n    \"name\": \"s-0000000001\"\n  }\n]\n"},
		{args: "ls /a/b/s-0000000000 -o json", out: "[]\n"},
		{args: "ls /none", is: shell.ErrNo},
		{args: "tree /a", out: "/a\n  b  3 bytes\n    s-0000000000\n    s-0000000001\n"},
		{args: "tree /a --depth 1", out: "/a\n  b  3 bytes\n"},
		{args: "tree /none", is: shell.ErrNo},
		{args: "set /a/b two --version 7", is: shell.ErrNo, says: "stat PATH"},
		{args: "set /a/b two --version 0", out: "version 1\n"},
		{args: "set /a/b", is: shell.ErrUsage, says: "no data"},
		{args: "set /a/b x --file y", is: shell.ErrUsage, says: "twice"},
		{args: "set /a/b --file /no/such/file", is: shell.ErrUsage, says: "no such file"},
		{args: "set /none x", is: shell.ErrNo, says: "create PATH"},
		{args: "set /a/b --file " + data, out: "version 2\n"},
		{args: "get /a/b", out: "from a file\x00\xff"},
		{args: "get /a/b --as text", out: "from a file\\x00\\xff\n"},
		{args: "set /a/b --file -", in: "\x1f\x8b from stdin\n", out: "version 3\n"},
		{args: "get /a/b", out: "\x1f\x8b from stdin\n"},
		{args: "set /a/b {\"n\":12345678901234567890,\"s\":\"\u202e\"}", out: "version 4\n"},
		{args: "get /a/b --as json", out: "{\n  \"n\": 12345678901234567890,\n  \"s\": \"\\u202e\"\n}\n"},
		{args: "stat /none", is: shell.ErrNo, says: "does not exist"},
		{args: "sync"},
		{args: "create /t x --ttl 1h", out: "/t\n"},
		{args: "create /c --container", out: "/c\n"},
		{args: "create /e --ephemeral", is: shell.ErrUsage, says: "--hold"},
		{args: "create /e --hold", is: shell.ErrUsage, says: "--ephemeral"},
		{args: "create /e --ttl 1h --container", is: shell.ErrUsage, says: "exclude"},
		{args: "create /e --ttl 1us", is: shell.ErrUsage, says: "milliseconds"},
		{args: "create /e --container -s", is: shell.ErrUsage, says: "sequential"},
		{args: "create /acl x --acl world:anyone:r --acl ip:127.0.0.1:cdrwa", out: "/acl\n"},
		{args: "acl get /acl", out: "world:anyone:r\nip:127.0.0.1:cdrwa\n"},
		{args: "acl set /acl auth::cdrwa", is: shell.ErrNo, says: "--digest-file"},
		{args: "acl set /acl auth::cdrwa --user alice:secret --version 7", is: shell.ErrNo},
		{args: "acl set /acl auth::cdrwa --user alice:secret --version 0", out: "version 1\n"},
		{args: "get /acl", is: shell.ErrNo, says: "credentials"},
		{args: "get /acl --user alice:secret", out: "x"},
		{args: "acl set /acl world:anyone", is: shell.ErrUsage, says: "scheme:id:permissions"},
		{args: "acl set /acl world:anyone:rx", is: shell.ErrUsage, says: "c, d, r, w and a"},
		{args: "acl set /acl", is: shell.ErrUsage, says: "missing"},
		{args: "acl", is: shell.ErrUsage, says: "acl get PATH"},
		{args: "rm /a/b", is: shell.ErrNo, says: "--recursive"},
		{args: "rm /a/b -n", is: shell.ErrNo, says: "--recursive"},
		{args: "rm /a/b -r", is: shell.ErrUsage, says: "--yes"},
		{args: "rm /a/b/s-0000000000 --version 1 -n", is: shell.ErrNo},
		{args: "rm /a/b/s-0000000000 --version 1", is: shell.ErrNo},
		{args: "rm /a/b/s-0000000000 --version 0"},
		{args: "rm /a -rn", out: "would delete /a\nwould delete /a/b\nwould delete /a/b/s-0000000001\n"},
		{args: "rm /a -rn -o jsonl", out: "{\"path\":\"/a\"}\n{\"path\":\"/a/b\"}\n{\"path\":\"/a/b/s-0000000001\"}\n"},
		{args: "rm /a -ry --version 3", is: shell.ErrNo},
		{args: "ls /a/b", out: "s-0000000001\n"}, // no step has deleted it
		{args: "rm /a/b -ry --version 4"},
		{args: "rm /a -ry"},
		{args: "rm /a -ry", is: shell.ErrNo, says: "does not exist"},
		{args: "rm / -ry", is: framework.ErrBadArguments},
		{args: "ls", out: "acl\nc\nt\nzookeeper\n"},
		{args: "config", out: "no members: a standalone server\n"},
		{args: "config -o jsonl", out: "{\"version\":0,\"members\":[]}\n"},
		{args: "reconfig", is: framework.ErrBadArguments, says: "--add"},
		{args: "reconfig --remove 4", is: shell.ErrNo, says: "reconfigEnabled"},
		{args: "ping --count 0", is: shell.ErrUsage},
		{args: "4lw ruok", out: "imok\n"},
		{args: "4lw ru\nok", is: shell.ErrUsage, says: "mntr"},
		{args: "4lw abcd", is: shell.ErrNo, says: "abcd"},
		{args: "4lw ruok --server 127.0.0.1:1", is: shell.ErrNo, says: "refused"},
		{args: "watch /a -o json", is: shell.ErrUsage, says: "jsonl"},
		{args: "dump /none", is: shell.ErrNo},
		{args: "dump /acl", is: shell.ErrNo, says: "--no-acl"},
		{args: "restore /x", in: "nonsense", is: shell.ErrNo, says: "line 1"},
		{args: "restore /x /no/such/file", is: shell.ErrUsage},
		{args: "dump /t /no/such/directory/file", is: shell.ErrUsage},
	} {
		out, err := b.runs(tt.in, strings.Split(tt.args, " ")...)
		assert.Equal(t, tt.out, out, "%d: %s", i, tt.args)
		switch {
		case tt.is == nil && tt.says == "":
			assert.NoError(t, err, "%d: %s", i, tt.args)
		default:
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is, "%d: %s", i, tt.args)
			}
			assert.ErrorContains(t, err, tt.says, "%d: %s", i, tt.args)
		}
	}
	eventually(t, "no session is left", func() bool { return len(b.srv.Sessions()) == 0 })
}

func TestStatAndLong(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.ok("create", "/a", "data")
	b.ok("create", "/a/b")
	_, err := b.srv.CreateNode("/a/e", nil, zktest.Mode(framework.Ephemeral), 0)
	require.Error(t, err, "no such session")
	out := b.ok("stat", "/a")
	assert.Regexp(t, `(?m)^version +0$`, out)
	assert.Regexp(t, `(?m)^length +4 bytes$`, out)
	assert.Regexp(t, `(?m)^children +1$`, out)
	var stat struct {
		Path             string
		Version, Length  int
		Children         int
		Czxid            string
		EphemeralOwner   *string
		Created, Unknown string
	}
	require.NoError(t, json.Unmarshal([]byte(b.ok("stat", "/a", "--output", "json")), &stat))
	assert.Equal(t, "/a", stat.Path)
	assert.Equal(t, 4, stat.Length)
	assert.Regexp(t, "^0x[0-9a-f]+$", stat.Czxid)
	assert.Nil(t, stat.EphemeralOwner)
	assert.Regexp(t, `(?m)^b +v0 +0 bytes +0 children +\d{4}-\d\d-\d\dT[0-9:.]+Z$`, b.ok("ls", "/a", "-l"))
	assert.Regexp(t, `^{"name":"b","version":0,.*}\n$`, b.ok("ls", "/a", "-l", "--output", "jsonl"))
}

func TestPing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	out := b.ok("ping", "--count", "3")
	assert.Regexp(t, `(?m)^read +[0-9.]+ +[0-9.]+ +[0-9.]+$`, out)
	var l struct {
		Server     string
		Read, Sync struct{ Min, Median, Max float64 }
	}
	require.NoError(t, json.Unmarshal([]byte(b.ok("ping", "-c", "3", "-o", "jsonl")), &l))
	assert.Equal(t, b.srv.Addr(), l.Server)
	assert.LessOrEqual(t, l.Read.Min, l.Read.Median)
	assert.LessOrEqual(t, l.Sync.Median, l.Sync.Max)
	assert.Positive(t, l.Sync.Max)
}

// A dump is restored elsewhere, and dry runs change nothing.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.ok("create", "/a", "\x00\xff", "--acl", "world:anyone:cdrwa")
	for i := range 700 {
		require.NoError(t, b.srv.Create(fmt.Sprintf("/a/n%03d", i), fmt.Appendf(nil, "%d", i)))
	}
	file := filepath.Join(t.TempDir(), "a.dump")
	r := b.start("dump", "/a", file)
	require.NoError(t, r.end())
	assert.Contains(t, r.err.String(), "dumped 701 nodes")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(content), b.ok("dump", "/a"), "the same on standard output")

	before := b.srv.Zxid()
	created := func(out string) int { return strings.Count(out, "create     ") }
	assert.Equal(t, 701, created(b.ok("restore", "/deep/down", file, "--dry-run")))
	assert.False(t, b.srv.Exists("/deep"), "nor its parents")
	b.ok("restore", "/deep/down", file)
	assert.True(t, b.srv.Exists("/deep/down/n699"))
	data, _, err := b.srv.Get("/deep/down")
	require.NoError(t, err)
	assert.Equal(t, "\x00\xff", string(data))
	assert.Greater(t, b.srv.Zxid(), before)

	require.NoError(t, b.srv.Set("/deep/down/n500", []byte("other")))
	require.NoError(t, b.srv.Set("/deep/down/n600", []byte("other")))
	require.NoError(t, b.srv.Delete("/deep/down/n001"))
	nodes := b.srv.Tree()
	out, err := b.runs(string(content), "restore", "/deep/down", "--dry-run")
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "2 nodes exist with other data")
	assert.Equal(t, 1, created(out))
	assert.Equal(t, []string{"conflict   /deep/down/n500", "conflict   /deep/down/n600"},
		regexp.MustCompile(`(?m)^conflict .*$`).FindAllString(out, -1))
	assert.Equal(t, 698, strings.Count(out, "same       "))
	out = b.ok("restore", "/deep/down", file, "--dry-run", "--overwrite", "-o", "jsonl")
	assert.Equal(t, 700, strings.Count(out, `"step":"overwrite"`))
	var steps []struct{ Path, Step string }
	require.NoError(t, json.Unmarshal([]byte(b.ok("restore", "/x", file, "-n", "-o", "json")), &steps))
	assert.Len(t, steps, 701)
	assert.Equal(t, nodes, b.srv.Tree(), "nothing of that has changed anything")

	_, err = b.runs("", "restore", "/deep/down", file)
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "--overwrite")
	assert.Contains(t, b.ok("restore", "/deep/down", file, "--overwrite"), "restored 701 nodes")
	data, _, err = b.srv.Get("/deep/down/n500")
	require.NoError(t, err)
	assert.Equal(t, "500", string(data))

	lines := strings.SplitAfter(string(content), "\n")
	_, err = b.runs(strings.Join(lines[:300], ""), "restore", "/cut", "-n")
	assert.ErrorIs(t, err, tree.ErrInvalidDump, "a dry run reads the dump to its end")
	_, err = b.runs("", "dump", "/none", file)
	require.Error(t, err)
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, content, again, "a dump that fails leaves the old one")
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	assert.Len(t, left, 1)
}
