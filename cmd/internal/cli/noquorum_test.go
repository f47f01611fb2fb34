//go:build linux || darwin

package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// Without a quorum doctor reports the role of each server. The other commands refer to doctor.
func TestWithoutAQuorum(t *testing.T) {
	t.Parallel()
	e := zktest.RunEnsembleT(quiet{t}, 3, zktest.Config{Listen: "127.0.0.1:0", TickTime: 500 * time.Millisecond})
	b := &bed{T: t, dir: t.TempDir(), env: []string{"CURATOR_SERVERS=" + e.ConnectString()}}
	code, out, err := b.runs("doctor")
	assert.Zero(t, code, "%s%s", out, err)
	assert.Regexp(t, `SERVER +ROLE +ZXID +REPLIED IN`, out)
	assert.Regexp(t, `127\.0\.0\.1:\d+ +leader +0x[0-9a-f]+ +`, out)
	assert.Contains(t, out, "session timeout")

	e.Member(0).Stop()
	e.Member(1).Pause()
	defer e.Member(1).Resume()
	code, out, err = b.runs("doctor", "--connect-timeout", "1h") // doctor does not wait for so long
	assert.Equal(t, 1, code)
	assert.Empty(t, err)
	var roles []string
	for _, row := range strings.Split(out, "\n")[1:4] {
		roles = append(roles, strings.Join(strings.Fields(row)[1:], " "))
	}
	assert.Equal(t, []string{"refused", "silent", "no quorum"}, roles, out)
	assert.Contains(t, out, "advice: no server with a quorum can be reached: ")
	assert.NotContains(t, out, "session timeout", "nothing is known of a session")

	code, out, _ = b.runs("doctor", "-o", "json")
	assert.Equal(t, 1, code)
	report := decoded[struct {
		Server  string
		Servers []struct{ Role, Zxid, Error string }
		Advice  []string
	}](t, out)
	require.Len(t, report.Servers, 3)
	assert.Equal(t, "silent", report.Servers[1].Role)
	assert.NotEmpty(t, report.Servers[1].Error)
	assert.Empty(t, report.Server)

	for _, command := range [][]string{{"who", path}, {"locks", "/"}, {"why", path}} {
		code, _, err = b.runs(append(command, "--connect-timeout", "1s")...)
		assert.Equal(t, 123, code)
		assert.Contains(t, err, `"curator doctor" shows the role of each server`)
		assert.Contains(t, err, `"curator 4lw srvr"`)
		assert.NotContains(t, err, "\n")
	}
}
