package clock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is also a child, which says what its clocks show for each line that it reads, and has as many other
// threads ask for the time without a pause as the machine has processors.
func TestMain(m *testing.M) {
	if os.Getenv("CLOCK_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	for range runtime.NumCPU() {
		go func() {
			for last := time.Now(); ; {
				now := time.Now()
				if passed := now.Sub(last); passed < 0 || passed > time.Minute {
					panic(fmt.Sprint("the monotonic clock was stepped: ", passed))
				}
				last = now
			}
		}()
	}
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var of syscall.Timeval
		err := syscall.Gettimeofday(&of)
		fmt.Println(time.Now().Unix(), of.Sec, int64(time.Since(began)/time.Second), err)
	}
}

// child starts a process. The function that is returned has it say what its clocks show.
func child(t *testing.T, cmd *exec.Cmd) (show func() []string) {
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	t.Cleanup(func() {
		assert.NoError(t, in.Close())
		assert.NoError(t, cmd.Wait())
	})
	return func() []string {
		_, err := io.WriteString(in, "\n")
		require.NoError(t, err)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		return strings.Fields(line)
	}
}

func at(t *testing.T, word string) time.Time {
	seconds, err := strconv.ParseInt(word, 10, 64)
	require.NoError(t, err)
	return time.Unix(seconds, 0)
}

func TestStepOfAGoProcess(t *testing.T) {
	began := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CLOCK_TEST_CHILD=1")
		show := child(t, cmd)
		before := show()
		assert.True(t, Stepped(at(t, before[0]), 0))
		require.NoError(t, Step(cmd.Process.Pid, by))
		after := show()
		assert.True(t, Stepped(at(t, after[0]), by), "time.Now: %v", after)
		assert.True(t, Stepped(at(t, after[1]), by), "gettimeofday: %v", after)
		passed, err := strconv.Atoi(after[2])
		require.NoError(t, err)
		assert.Less(t, passed, 60, "the monotonic clock")
		assert.Equal(t, "<nil>", after[3])
		require.ErrorContains(t, Step(cmd.Process.Pid, by), "stepped before")
	}
	assert.Less(t, (time.Since(began) - time.Now().Round(0).Sub(began.Round(0))).Abs(), time.Minute, "this process has its own clock")
}

// A process on libc, its child, and what is forked later. What is executed later has the machine's clock. They are
// somebody else's, if this is root's, as the servers are.
func TestStepOfAFamily(t *testing.T) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	const says = `printf '%(%s)T ' -1`
	cmd := exec.Command(bash, "-c", `
coproc while read -r; do printf '%(%s)T\n' -1; done
while read -r; do
	`+says+`
	echo >&"${COPROC[1]}"; read -r it <&"${COPROC[0]}"; printf '%s ' "$it"
	(`+says+`)
	date +%s
done`)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	show := child(t, cmd)
	assert.True(t, Stepped(at(t, show()[0]), 0))
	require.NoError(t, Step(cmd.Process.Pid, time.Hour))
	after := show()
	for i, whose := range []string{"the process", "its child", "a later child"} {
		assert.True(t, Stepped(at(t, after[i]), time.Hour), "%s: %v", whose, after)
	}
	assert.True(t, Stepped(at(t, after[3]), 0), "what was executed: %v", after)
}

func TestAClockThatIsNotStepped(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	own := func(context.Context) (time.Time, error) { return time.Now(), nil }
	require.NoError(t, Await(t.Context(), 0, own))
	require.ErrorContains(t, Await(ctx, time.Hour, own), "was not stepped by 1h0m0s")
}

func TestWhatIsNoVDSO(t *testing.T) {
	_, err := patch(make([]byte, 8192), time.Hour)
	require.Error(t, err)
	require.Error(t, Step(1<<22+1, time.Hour), "there is no such process")
}
