package shell_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cmd/internal/shell"
)

// Without a terminal the lines share one session, up to the first that fails.
func TestLinesFromStandardInput(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	out, err := b.runs(`
# a comment
create /e "a\tb" --ephemeral
create /e/x
`, "shell")
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "line 4: ")
	assert.Equal(t, "/e\n", out)
	assert.False(t, b.srv.Exists("/e"), "it lived as long as the session")

	out, err = b.runs("create /e -e 'of one session'\nsync\nls\nget /e --as text\nacl get /e\nexit\nget /none\n", "shell")
	require.NoError(t, err)
	assert.Equal(t, "/e\ne\nzookeeper\nof one session\nworld:anyone:cdrwa\n", out)

	for in, says := range map[string]string{
		"create /e -e --hold":   "not for the prompt",
		"set / --file -":        "name a file",
		"restore /x":            "name a file",
		"rm / -r":               "--yes",
		"shell":                 "unknown command",
		"lock /x":               "unknown command",
		"ls --servers x":        "unknown flag",
		"ls 'a":                 "a ' is missing",
		"exit now":              "too many",
		"4lw ruok --timeout 0s": "more than none",
	} {
		_, err = b.runs(in, "shell")
		assert.ErrorContains(t, err, says, in)
	}
	for _, in := range []string{"", "help", "help acl set", "4lw ruok", "ping", "config", "quit"} {
		_, err = b.runs(in, "shell")
		assert.NoError(t, err, in)
	}
}
