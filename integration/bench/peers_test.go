package bench_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/bench"
	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/javapeer"
)

// peer is a process that does jobs, one at a time.
type peer interface {
	start(ctx context.Context, job bench.Job) error
	mark(ctx context.Context) (bench.Sample, error)
	stop(ctx context.Context) error
}

// goPeer is a peer whose process runs ./load.
type goPeer struct {
	in  io.Writer
	out *bufio.Reader
}

// build builds ./load, without the race detector even if this test has it.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "load")
	built, err := exec.Command("go", "build", "-o", program, "./load").CombinedOutput()
	require.NoError(t, err, "%s", built)
	return program
}

func startGo(t *testing.T, program, name, server string) *goPeer {
	t.Helper()
	cmd := exec.Command(program, "-peer", name, "-server", server)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	process, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		in.Close()
		process.Kill()
	})
	return &goPeer{in, bufio.NewReaderSize(out, 1<<20)}
}

func (p *goPeer) call(command string, answer any) error {
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		return err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s: the process has ended: %w", command, err)
	}
	return json.Unmarshal(line, answer)
}

func (p *goPeer) start(_ context.Context, job bench.Job) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	var ok string
	return p.call("start "+string(text), &ok)
}

func (p *goPeer) mark(context.Context) (s bench.Sample, err error) { return s, p.call("mark", &s) }

func (p *goPeer) stop(context.Context) error {
	var ok string
	return p.call("stop", &ok)
}

// javaPeer is Curator, in a JVM with all its compilers and a heap that does not slow it down.
type javaPeer struct {
	peer   *javapeer.Peer
	server string
	load   *javapeer.Load
	n      int
}

func startJava(t *testing.T, server string) *javaPeer {
	return &javaPeer{peer: javapeer.Start(t, "-XX:TieredStopAtLevel=4", "-Xmx512m"), server: server}
}

func (p *javaPeer) start(ctx context.Context, job bench.Job) (err error) {
	p.n++
	p.load, err = p.peer.Load(ctx, fmt.Sprint("load-", p.n), p.server, job)
	return err
}

func (p *javaPeer) mark(ctx context.Context) (bench.Sample, error) { return p.load.Mark(ctx) }
func (p *javaPeer) stop(ctx context.Context) error                 { return p.load.Stop(ctx) }

// measured has the results of one peer in one round, with the server's counts.
type measured struct {
	bench.Sample
	requests, events float64 // a cycle
}

// measure does a job with a peer: first for the time warm, which does not count, then for the time long.
func measure(
	ctx context.Context, p peer, job bench.Job, server func() (requests, sent int), warm, long time.Duration,
) (m measured, err error) {
	if err := p.start(ctx, job); err != nil {
		return m, err
	}
	time.Sleep(warm)
	if _, err := p.mark(ctx); err != nil {
		return m, err
	}
	received, sent := server()
	time.Sleep(long)
	if m.Sample, err = p.mark(ctx); err != nil {
		return m, err
	}
	receivedThen, sentThen := server()
	m.requests = float64(receivedThen-received) / float64(m.Cycles)
	m.events = float64((sentThen-sent)-(receivedThen-received)) / float64(m.Cycles)
	return m, p.stop(ctx)
}
