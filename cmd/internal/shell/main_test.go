package shell_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is the longest time for an event that must happen.
const limit = time.Minute

// bed is a server that the commands reach over TCP.
type bed struct {
	*testing.T
	srv *zktest.Server
	tls []framework.Option
}

func newBed(t *testing.T) *bed {
	srv := zktest.RunT(quiet{t}, zktest.Config{Listen: "127.0.0.1:0", ExtendedTypes: true})
	return &bed{T: t, srv: srv}
}

// quiet drops the server's trace.
type quiet struct{ *testing.T }

func (quiet) Logf(string, ...any) {}

// connection connects to the test's server, with the credentials of a user if one is given.
type connection struct {
	b    *bed
	user string
}

func (c *connection) Flags(f *pflag.FlagSet) { f.StringVar(&c.user, "user", "", "credentials") }

func (c *connection) Open(ctx context.Context, _ *cobra.Command) (*framework.Client, error) {
	opts := []framework.Option{framework.WithSessionTimeout(30 * time.Second),
		framework.WithDefaultData([]byte("default data"))}
	if c.user != "" {
		opts = append(opts, framework.WithAuth("digest", []byte(c.user)))
	}
	client, err := framework.New(c.b.srv.Addr(), opts...)
	if err == nil {
		err = client.WaitConnected(ctx)
	}
	return client, err
}

func (c *connection) Begin(
	_ *cobra.Command, servers []string, opts ...framework.Option,
) (*framework.Client, error) {
	if len(servers) == 0 {
		servers = []string{c.b.srv.Addr()}
	}
	return framework.New(strings.Join(servers, ","), append(opts, c.b.tls...)...)
}

// buffer collects a running command's output.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running is a command that runs.
type running struct {
	*bed
	out, err buffer
	done     chan error
	stop     context.CancelFunc
}

func (b *bed) startTo(in io.Reader, out io.Writer, args ...string) *running {
	ctx, stop := context.WithCancel(b.Context())
	r := &running{bed: b, done: make(chan error, 1), stop: stop}
	root := &cobra.Command{Use: "curator", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(&cobra.Group{ID: "nodes", Title: "Nodes"})
	root.AddCommand(shell.Commands("nodes", func() shell.Connection { return &connection{b: b} }, nil)...)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	if out == nil {
		root.SetOut(&r.out)
	}
	root.SetErr(&r.err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.done <- root.ExecuteContext(ctx)
	}()
	b.Cleanup(func() { stop(); <-ended })
	return r
}

func (b *bed) start(args ...string) *running { return b.startTo(strings.NewReader(""), nil, args...) }

// end waits until the command ends.
func (r *running) end() error {
	r.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(limit):
		require.FailNow(r, "the command does not end")
		return nil
	}
}

// runs runs a command to its end, with the input in.
func (b *bed) runs(in string, args ...string) (out string, err error) {
	b.Helper()
	r := b.startTo(strings.NewReader(in), nil, args...)
	err = r.end()
	return r.out.String(), err
}

// ok runs a command, and requires success.
func (b *bed) ok(args ...string) string {
	b.Helper()
	out, err := b.runs("", args...)
	require.NoError(b, err, "%q", args)
	return out
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "not within a minute: "+what)
		}
	}
}
