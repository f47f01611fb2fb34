package browser_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	inspecthttp "github.com/go-curator/curator/inspect/http"
	"github.com/go-curator/curator/zktest"
)

// limit is the longest wait for something that must happen. It passes only if something is wrong.
const limit = time.Minute

// chromium is the one browser of all tests. Each viewer has its own tab in it, with its own storage.
var chromium context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path, err := exec.LookPath(env("CHROMIUM", "chromium"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "no browser: integration/setup installs Debian's package chromium, or set CHROMIUM:", err)
		return 1
	}
	profile, err := os.MkdirTemp("", "curator-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(profile)
	// As root, as in a container, Chromium has no sandbox. It opens only the pages of these tests.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(profile),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-software-rasterizer", true))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	browser, endBrowser := chromedp.NewContext(allocator)
	defer endBrowser()
	if err := chromedp.Do(browser); err != nil { // starts it
		fmt.Fprintln(os.Stderr, "the browser does not start:", err)
		return 1
	}
	chromium = browser
	return m.Run()
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// stage is a server, a client of it, and the page of all nodes below /.
type stage struct {
	server *zktest.Server
	client *framework.Client
	owner  int64 // the client's session
	page   *inspecthttp.Page
	web    *httptest.Server
}

func newStage(t *testing.T, opts ...inspecthttp.Option) *stage {
	t.Helper()
	s := &stage{server: zktest.RunT(quiet{t})}
	s.client = s.connect(t)
	s.owner = s.server.Sessions()[0].ID
	var err error
	s.page, err = inspecthttp.New(s.client, "/", opts...)
	require.NoError(t, err)
	s.web = httptest.NewServer(s.page)
	t.Cleanup(func() {
		s.page.Close()
		s.web.Close()
	})
	return s
}

// quiet discards the server's trace.
type quiet struct{ *testing.T }

func (quiet) Logf(string, ...any) {}

// connect returns another client, with its own session, whose timeout is long enough for a busy machine.
func (s *stage) connect(t *testing.T) *framework.Client {
	t.Helper()
	c, err := framework.New(s.server.Addr(), framework.WithDialer(s.server.Dial),
		framework.WithSessionTimeout(40*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.NoError(t, c.WaitConnected(ctx))
	return c
}

// stand creates the node of a participant that holds or waits until its session ends.
func (s *stage) stand(t *testing.T, path, data string) {
	t.Helper()
	_, err := s.server.CreateNode(path, []byte(data), zktest.Ephemeral, s.owner)
	require.NoError(t, err)
}

func (s *stage) children(path string) int {
	names, err := s.server.Children(path)
	if err != nil {
		return 0
	}
	return len(names)
}

// later calls f on another goroutine, which ends with the test.
func later(t *testing.T, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not in time: %s", what)
	}
}
