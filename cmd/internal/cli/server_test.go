//go:build linux || darwin

package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A flag takes precedence over the environment, even if it replaces another flag.
func TestAServerThatIsNamedIsTheOnlyOneAsked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.env = append(b.env, "CURATOR_SERVERS=127.0.0.1:1,127.0.0.1:2")
	code, out, err := b.runs("4lw", "ruok", "--server", b.srv.Addr())
	assert.Zero(t, code, err)
	assert.Equal(t, "imok", out)
	code, out, _ = b.runs("4lw", "ruok", "--server", b.srv.Addr(), "--server", "127.0.0.1:1")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "== "+b.srv.Addr()+"\nimok\n== 127.0.0.1:1\n")
	assert.NotContains(t, out, "127.0.0.1:2\n")
}
