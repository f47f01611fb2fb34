//go:build linux || darwin

package cli_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In the prompt relative paths begin at the node that cd has chosen, in every command.
func TestPromptAtANode(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, path := range []string{"/locks", "/locks/orders", "/locks/a\u202eb"} {
		require.NoError(t, b.srv.Create(path, nil))
	}
	s := b.atPrompt("shell")
	s.prompts()
	s.types("cd locks\r")
	s.shows("curator /locks> ")
	s.types("pwd\r")
	s.shows("\r\n/locks\r\n")
	s.types("ls\r")
	s.shows("\r\norders\r\n")
	s.shows("curator /locks> ")
	s.types("create orders/x one\r")
	s.shows("\n/locks/orders/x\r\n")
	s.types("cd or\t\r") // Tab: orders
	s.shows("curator /locks/orders> ")
	s.types("get x\r")
	s.shows("\none\r\n")
	s.types("get ./x\r")
	s.shows("\none\r\n")
	s.types("create job- --sequential\r")
	s.shows("\n/locks/orders/job-0000000001\r\n")
	s.types("ls /locks/orders/..\r")
	s.shows("\norders\r\n")
	s.types("cd none\r")
	s.shows("/locks/orders/none: node does not exist")
	s.shows("curator /locks/orders> ")
	s.types("cd ../a\t\"\r") // Tab opens a quotation
	s.shows(`curator /locks/a\u202eb> `)
	s.types("cd ../../..\r")
	s.prompts()
	s.types("cd /locks\r")
	s.shows("curator /locks> ")
	s.types("cd\r")
	s.prompts()
	s.types("ls '' \r")
	s.shows("invalid path")
	s.types("\x04")
	assert.Zero(t, s.code())
	b.atRest()
	assert.NotContains(t, s.all(), "\u202e")
}

// The prompt's session shows the holders, and runs commands under its own holds.
func TestPromptSeesAndRuns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	holder := b.start("lock", path, "--id", "somebody", "--", "sleep", "600")
	eventually(t, "held", func() bool { return len(b.line()) == 1 })
	s := b.atPrompt("shell", "--id", "prompted")
	s.prompts()
	require.Len(t, b.srv.Sessions(), 2)
	s.types("cd /locks\r")
	s.shows("curator /locks> ")
	s.types("who x\r")
	s.shows("/locks/x: mutex, 1 hold, 0 wait")
	s.shows("somebody")
	s.shows("curator /locks> ")
	s.types("locks .\r")
	s.shows("/locks/x")
	s.shows("curator /locks> ")
	s.types("cd x\r")
	s.shows("curator /locks/x> ")
	s.types("why\r")
	s.shows("/locks/x: mutex, 1 hold, 0 wait")
	s.shows("curator /locks/x> ")
	s.types("cd ..\r")
	s.shows("curator /locks> ")
	s.types("doctor\r")
	s.shows("session timeout")
	s.shows("30s asked for")
	s.shows("advice: the server is standalone")
	s.shows("curator /locks> ")
	s.types("create x/odd\r")
	s.shows("\n/locks/x/odd\r\n")
	s.shows("curator /locks> ")
	s.types("why x\r")
	s.shows("foreign")
	s.shows("curator /locks> ")
	assert.NotContains(t, s.all(), "exit status", "what they have found says it")
	s.types("rm x/odd\r")
	s.shows("curator /locks> ")
	s.types("who x --watch\r")
	s.shows("mutex, 1 hold, 0 wait")
	s.types("\x03")
	s.shows("curator /locks> ")

	// A command that waits is interrupted, and leaves no node.
	s.types("lock x -- true\r")
	eventually(t, "waiting", func() bool { return len(b.line()) == 2 })
	s.types("\x03")
	s.shows("curator /locks> ")
	eventually(t, "gone", func() bool { return len(b.line()) == 1 })

	// A command that is run has the terminal, and its exit status is reported.
	holder.signal(syscall.SIGTERM)
	holder.code()
	s.types(`lock x -- sh -c 'echo under $CURATOR_PATH; read line; echo heard $line; exit 3'` + "\r")
	s.shows("under /locks/x")
	assert.Len(t, b.srv.Sessions(), 1, "it is the prompt's")
	s.types("what is typed\r")
	s.shows("heard what is typed")
	s.shows("exit status 3")
	s.shows("curator /locks> ")
	assert.Empty(t, b.line())
	s.types("once jobs/report today -- sh -c 'echo did $CURATOR_SLOT; sleep 600'\r")
	s.shows("did today")
	s.types("\x03")
	s.shows("exit status 130")
	s.shows("curator /locks> ")
	// Lines that arrive together are executed one after the other.
	again := "once jobs/report today -- sh -c 'echo did $CURATOR_SLOT'\r"
	s.types(again + again + "permit p --of 1 -- echo permitted\r")
	s.shows("\ndid today\r\ncurator /locks> ")
	s.shows("\npermitted\r\ncurator /locks> ")
	assert.Equal(t, 2, strings.Count(s.all(), "\ndid today"), "and then the slot is done")
	assert.True(t, b.srv.Exists("/locks/jobs/report/slots/today"))
	s.types("lead l --once -- echo led\r")
	s.shows("\nled\r\n")
	s.shows("curator /locks> ")
	assert.NotContains(t, s.all(), "exit status 0")

	// The end of the terminal ends the running command, and the prompt.
	s.types("lock x -- sleep 600\r")
	eventually(t, "held", func() bool { return len(b.line()) == 1 })
	s.signal(syscall.SIGHUP)
	assert.Equal(t, 129, s.code())
	b.atRest()
}

// Lines from a file: a command that is run does not read them, and its exit status is also the shell's.
func TestScriptsRunCommands(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	fed := b.unstarted("shell")
	lines, err := os.CreateTemp(b.dir, "lines")
	require.NoError(t, err)
	_, err = lines.WriteString("cd /\nlock locks/x -- cat\ncreate /after\nlock locks/x -- sh -c 'exit 7'\ncreate /never\n")
	require.NoError(t, err)
	_, err = lines.Seek(0, 0)
	require.NoError(t, err)
	fed.cmd.Stdin = lines
	var out, failed strings.Builder
	fed.cmd.Stdout, fed.cmd.Stderr = &out, &failed
	require.Error(t, fed.cmd.Run())
	assert.Equal(t, 7, fed.cmd.ProcessState.ExitCode(), failed.String())
	assert.Equal(t, "/after\n", out.String())
	assert.False(t, b.srv.Exists("/never"))

	// The same holds for a command that reports findings by its status, and has already printed them.
	fed = b.unstarted("shell")
	fed.cmd.Stdin = strings.NewReader("doctor\ncreate /never\n")
	failed.Reset()
	fed.cmd.Stderr = &failed
	require.Error(t, fed.cmd.Run())
	assert.Equal(t, 1, fed.cmd.ProcessState.ExitCode(), failed.String())
	assert.NotContains(t, failed.String(), "exit status")
	assert.False(t, b.srv.Exists("/never"))
	b.atRest()
}
