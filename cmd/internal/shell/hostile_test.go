package shell_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cmd/internal/shell"
)

// Names that ZooKeeper allows, and data, which could harm a terminal.
var (
	hostileNames = []string{"\u202egnp.exe", "a\u2028b", "$(touch pwned)", `"; rm -rf ~`, "'", " blank ", "-rf",
		"\u2066\u200b", "日本", `\x1b[2J`, "<script>"}
	hostileData = []string{"\x1b[2J\x1b]0;owned\x07", "\u009b31m", "\u202e\ufeff", "\xff\xfe\x00", "a\r\nb\tc\n",
		strings.Repeat("\x1b[31m\xff", 150_000)}
)

// harmless requires that all characters of a text, apart from line breaks and tabs, are printable.
func harmless(t *testing.T, what, s string) {
	t.Helper()
	for i, r := range s {
		if r != '\n' && r != '\t' && (!strconv.IsPrint(r) || r == '\ufffd') {
			require.Failf(t, what, "%q at %d: …%q…", r, i, s[max(0, i-20):min(len(s), i+20)])
		}
	}
}

func (b *bed) hostile() (paths []string) {
	require.NoError(b, b.srv.Create("/h", nil))
	for i, n := range hostileNames {
		data := hostileData[i%len(hostileData)]
		require.NoError(b, b.srv.Create("/h/"+n, []byte(data)), "%q", n)
		paths = append(paths, "/h/"+n)
	}
	return paths
}

// All output is printable, also into a pipe; only raw data are printed unchanged.
func TestHostileNodes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	paths := b.hostile()
	var commands [][]string
	for _, form := range []string{"table", "json", "jsonl"} {
		commands = append(commands, []string{"ls", "/h", "-o", form}, []string{"ls", "/h", "-l", "-o", form},
			[]string{"tree", "/h", "-o", form}, []string{"rm", "/h", "-rn", "-o", form})
		for _, p := range paths {
			commands = append(commands, []string{"stat", "-o", form, "--", p},
				[]string{"get", "--as", "text", "-o", form, "--", p}, []string{"get", "--as", "hex", "-o", form, "--", p},
				[]string{"acl", "get", "-o", form, "--", p})
		}
	}
	for _, c := range commands {
		harmless(t, fmt.Sprintf("%q", c), b.ok(c...))
	}
	for i, p := range paths {
		data := hostileData[i%len(hostileData)]
		assert.Equal(t, data, b.ok("get", p), "raw is exact")
		var got struct {
			Path, Text string
			Base64     []byte
		}
		require.NoError(t, json.Unmarshal([]byte(b.ok("get", p, "-o", "json")), &got))
		assert.Equal(t, p, got.Path)
		assert.Equal(t, data, got.Text+string(got.Base64), "JSON is exact")
		_, err := b.runs("", "create", p)
		require.Error(t, err)
		harmless(t, "error", err.Error())
	}
	dump := b.ok("dump", "/h")
	_, err := b.runs(dump, "restore", "/copy")
	require.NoError(t, err)
	for i, p := range paths {
		data, _, err := b.srv.Get("/copy" + strings.TrimPrefix(p, "/h"))
		require.NoError(t, err)
		assert.Equal(t, hostileData[i%len(hostileData)], string(data))
	}
	out, err := b.runs(dump, "restore", "/copy", "--dry-run")
	require.NoError(t, err)
	harmless(t, "dry run", out)
	b.ok("rm", "/h", "-ry")
	assert.False(t, b.srv.Exists("/h"))
}

// On a terminal raw data and dumps are harmless, too.
func TestHostileNodesOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	paths := b.hostile()
	commands := [][]string{{"ls", "/h"}, {"tree", "/h"}, {"dump", "/h"}}
	for _, p := range paths {
		commands = append(commands, []string{"get", p}, []string{"get", p, "--as", "raw"}, []string{"get", p, "-o", "jsonl"})
	}
	for _, c := range commands {
		user, terminal, err := pty.Open()
		require.NoError(t, err)
		seen := make(chan string, 1)
		go func() {
			var all strings.Builder
			_, _ = io.Copy(&all, user)
			seen <- all.String()
		}()
		require.NoError(t, b.startTo(strings.NewReader(""), terminal, c...).end(), "%q", c)
		require.NoError(t, terminal.Close())
		select {
		case out := <-seen:
			out = strings.ReplaceAll(out, "\r\n", "\n") // the terminal's own
			assert.NotEmpty(t, out)
			harmless(t, fmt.Sprintf("%q", c), out)
		case <-time.After(limit):
			require.FailNow(t, "the terminal does not end")
		}
		require.NoError(t, user.Close())
	}
}

func TestHugeDirectory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const many = 20_000
	require.NoError(t, b.srv.Create("/d", nil))
	for i := range many {
		require.NoError(t, b.srv.Create(fmt.Sprintf("/d/%s%05d", strings.Repeat("n", 20), i), nil))
	}
	assert.Equal(t, many, strings.Count(b.ok("ls", "/d"), "\n"))
	assert.Equal(t, many, strings.Count(b.ok("ls", "/d", "--long"), "\n"))
	assert.Equal(t, many+1, strings.Count(b.ok("tree", "/d"), "\n"))
	assert.Equal(t, many+1, strings.Count(b.ok("tree", "/d", "-o", "jsonl"), "\n"))
	b.ok("rm", "/d", "-ry")
	assert.False(t, b.srv.Exists("/d"))
}

// Data up to the largest size are stored and printed unchanged; larger data are refused before they are sent.
func TestLargeData(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	data := strings.Repeat("\x00\xff\x1b\n", 1<<18-100)
	_, err := b.runs(data, "create", "/large", "--file", "-")
	require.NoError(t, err)
	assert.Equal(t, data, b.ok("get", "/large"))
	_, err = b.runs(data+strings.Repeat("x", 1000), "set", "/large", "--file", "-")
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "jute.maxbuffer")
	file := t.TempDir() + "/huge"
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<40)) // sparse
	require.NoError(t, f.Close())
	_, err = b.runs("", "set", "/large", "--file", file)
	assert.ErrorIs(t, err, shell.ErrUsage)
}
