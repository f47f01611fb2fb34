package zkcontainer

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A container stays while its process lives; if its process cannot be checked, it goes when it is old.
func TestOwners(t *testing.T) {
	now, old := time.Now(), time.Now().Add(-strangersAge-time.Minute)
	same, err := parseOwner(self().String())
	require.NoError(t, err)
	assert.Equal(t, self(), same)
	assert.False(t, self().gone(now))

	stranger := owner{"elsewhere", self().pid, "12"}
	assert.False(t, stranger.gone(now))
	assert.True(t, stranger.gone(old))

	for _, bad := range []string{"", "a", "a_b_c", "a_1", "a_1_2_3"} {
		_, err := parseOwner(bad)
		assert.Error(t, err, "%q", bad)
	}
	if !canTell {
		return
	}
	assert.False(t, self().gone(old), "however old it is")
	reused := self()
	reused.start += "1"
	assert.True(t, reused.gone(now), "another process with the same id")
	dead := exec.Command("true")
	require.NoError(t, dead.Start())
	left := owner{home(), dead.Process.Pid, startOf(dead.Process.Pid)}
	require.NoError(t, dead.Wait())
	assert.True(t, left.gone(now))
	left.start = "" // it had ended before its start was read
	assert.True(t, left.gone(now))
}
