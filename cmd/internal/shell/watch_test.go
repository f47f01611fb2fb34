package shell_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (b *bed) watching(args ...string) *running {
	r := b.start(append([]string{"watch"}, args...)...)
	eventually(b.T, "watching", func() bool { return strings.Contains(r.err.String(), "watching ") })
	return r
}

// after calls does, and waits for the line that reports the change.
func (r *running) after(does func() error, line string) {
	r.Helper()
	require.NoError(r, does())
	eventually(r.T, line, func() bool { return strings.Contains(r.out.String(), line) })
}

func TestWatch(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	require.NoError(t, b.srv.Create("/w", []byte("there before")))
	r := b.watching("/w")
	assert.Contains(t, r.err.String(), "watching /w: 1 nodes now")
	assert.Empty(t, r.out.String())
	r.after(func() error { return b.srv.Create("/w/a", []byte("x\x1b[2J")) }, `created /w/a  v0, 5 bytes: x\x1b[2J`)
	r.after(func() error { return b.srv.Set("/w", []byte("\xff")) }, "changed /w  v1, 1 bytes: base64 /w==")
	r.after(func() error { return b.srv.Delete("/w/a") }, "deleted /w/a\n")
	r.after(func() error { b.srv.Stop(); return nil }, "connection: Suspended")
	r.after(b.srv.Start, "connection: Reconnected")
	r.after(func() error { return b.srv.Create("/w/b", nil) }, "created /w/b  v0, 0 bytes\n")
	r.stop()
	require.Error(t, r.end())
}

func TestWatchLinesOfJSON(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.watching("/w", "--output", "jsonl", "--as", "json")
	r.after(func() error { return b.srv.Create("/w", []byte(`{"a":1}`)) }, `"change":"created"`)
	r.after(func() error { return b.srv.Set("/w", []byte("no JSON")) }, `"error":`)
	r.after(func() error { return b.srv.Delete("/w") }, `"change":"deleted"`)
	r.stop()
	require.Error(t, r.end())
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	require.Len(t, lines, 3)
	var first struct {
		Change, Path, Time string
		JSON               struct{ A int }
		Stat               struct{ Version int }
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	assert.Equal(t, "created", first.Change)
	assert.Equal(t, "/w", first.Path)
	assert.Equal(t, 1, first.JSON.A)
}

func TestWatchOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	require.NoError(t, b.srv.Create("/w", nil))
	r := b.watching("/w", "--depth", "0", "--once")
	require.NoError(t, b.srv.Create("/w/below", nil)) // not watched
	require.NoError(t, b.srv.Set("/w", []byte("now")))
	require.NoError(t, r.end())
	assert.Equal(t, 1, strings.Count(r.out.String(), "\n"))
	assert.Contains(t, r.out.String(), "changed /w ")
}
