package clients

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/internal/kit"
)

//go:embed kazoopeer.py
var kazooProgram string

// kazoo is a Python process with one client.
type kazoo struct {
	in *os.File

	mu      sync.Mutex
	next    int
	pending map[int]chan kazooReply
	events  []kazooEvent
	more    chan struct{} // closed and replaced with each event
}

type kazooReply struct {
	ID             int
	Value          any
	Error, Message string
}

type kazooEvent struct {
	Event string
	Value any
}

// kazooError is a Python exception.
type kazooError struct{ Class, Message string }

func (e *kazooError) Error() string { return e.Class + ": " + e.Message }

// python returns the interpreter that has kazoo: Debian's, whatever is first in PATH.
func python() string {
	if named := os.Getenv("KAZOO_PYTHON"); named != "" {
		return named
	}
	return "/usr/bin/python3"
}

// startKazoo starts a process that is not connected yet. It ends with the test.
func startKazoo(t *testing.T) *kazoo {
	t.Helper()
	cmd := exec.Command(python(), "-I", "-u", "-c", kazooProgram)
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	stderr, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	process, err := child.Start(cmd)
	stdin.Close()
	stdout.Close()
	require.NoError(t, err, "integration/setup installs what is needed")
	k := &kazoo{in: in, pending: map[int]chan kazooReply{}, more: make(chan struct{})}
	var reader sync.WaitGroup
	reader.Go(func() { k.read(out) })
	t.Cleanup(func() {
		process.Kill()
		in.Close()
		reader.Wait()
		text, err := os.ReadFile(stderr.Name())
		if stderr.Close(); t.Failed() {
			t.Logf("stderr of kazoo: %v\n%s", err, text)
		}
	})
	return k
}

func connectKazoo(t *testing.T, addr string) *kazoo {
	t.Helper()
	k := startKazoo(t)
	k.must(t, "connect", with{"hosts": addr, "timeout": sessionTimeout.Seconds()})
	return k
}

func (k *kazoo) read(out *os.File) {
	defer out.Close()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var both struct {
			kazooReply
			kazooEvent
			Value any
		}
		if err := json.Unmarshal(lines.Bytes(), &both); err != nil {
			both.Event, both.Value = "garbage", lines.Text()
		}
		k.mu.Lock()
		if both.Event != "" {
			k.events = append(k.events, kazooEvent{both.Event, both.Value})
			close(k.more)
			k.more = make(chan struct{})
		} else if done := k.pending[both.ID]; done != nil {
			delete(k.pending, both.ID)
			both.kazooReply.Value = both.Value
			done <- both.kazooReply
		}
		k.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, done := range k.pending {
		done <- kazooReply{Error: "Ended", Message: "the process has ended"}
		delete(k.pending, id)
	}
}

// with has the arguments of a request.
type with map[string]any

// begin sends a request; the function it returns waits for the reply.
func (k *kazoo) begin(do string, arguments with) func(ctx context.Context) (any, error) {
	done := make(chan kazooReply, 1)
	k.mu.Lock()
	k.next++
	line, err := json.Marshal(map[string]any{"id": k.next, "do": do, "with": arguments})
	if err == nil {
		k.pending[k.next] = done
		_, err = k.in.Write(append(line, '\n'))
	}
	k.mu.Unlock()
	return func(ctx context.Context) (any, error) {
		if err != nil {
			return nil, err
		}
		select {
		case reply := <-done:
			if reply.Error != "" {
				return nil, fmt.Errorf("%s: %w", do, &kazooError{reply.Error, reply.Message})
			}
			return reply.Value, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (k *kazoo) call(t *testing.T, do string, arguments with) (any, error) {
	t.Helper()
	return k.begin(do, arguments)(kit.Context(t))
}

func (k *kazoo) must(t *testing.T, do string, arguments with) any {
	t.Helper()
	value, err := k.call(t, do, arguments)
	require.NoError(t, err)
	return value
}

// fails requires an exception of a class.
func (k *kazoo) fails(t *testing.T, class, do string, arguments with) {
	t.Helper()
	_, err := k.call(t, do, arguments)
	var failure *kazooError
	require.ErrorAs(t, err, &failure, "%s %v", do, arguments)
	require.Equal(t, class, failure.Class, "%v", err)
}

// await waits for an event of a name after the first seen events, and returns the number of events up to it.
func (k *kazoo) await(t *testing.T, seen int, name string, value any) int {
	t.Helper()
	ctx := kit.Context(t)
	want, err := json.Marshal(value)
	require.NoError(t, err)
	for {
		k.mu.Lock()
		events, more := slices.Clone(k.events), k.more
		k.mu.Unlock()
		for i := seen; i < len(events); i++ {
			got, err := json.Marshal(events[i].Value)
			require.NoError(t, err)
			if events[i].Event == name && string(got) == string(want) {
				return i + 1
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			require.FailNow(t, "no such event", "%s %s in %v", name, want, events)
		}
	}
}

// seen returns the number of events so far.
func (k *kazoo) seen() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.events)
}

// version returns the version of the kazoo in use.
func (k *kazoo) version() string {
	out, err := exec.Command(python(), "-I", "-c", "import kazoo.version; print(kazoo.version.__version__)").
		Output()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}
