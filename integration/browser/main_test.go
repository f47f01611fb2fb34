//go:build chromium

package browser_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	inspecthttp "github.com/go-curator/curator/inspect/http"
	"github.com/go-curator/curator/zktest"
)

// limit is how long anything may take that is bound to happen.
const limit = 20 * time.Second

// stage is a server, a client of it, and the page of what is below /.
type stage struct {
	server *zktest.Server
	client *framework.Client
	page   *inspecthttp.Page
	web    *httptest.Server
}

func newStage(t *testing.T, opts ...inspecthttp.Option) *stage {
	t.Helper()
	s := &stage{server: zktest.RunT(t)}
	s.client = s.connect(t)
	var err error
	s.page, err = inspecthttp.New(s.client, "/", opts...)
	require.NoError(t, err)
	t.Cleanup(s.page.Close)
	s.web = httptest.NewServer(s.page)
	t.Cleanup(func() {
		s.page.Close()
		s.web.Close()
	})
	return s
}

// connect returns another client, with a session of its own.
func (s *stage) connect(t *testing.T) *framework.Client {
	t.Helper()
	c, err := framework.New(s.server.Addr(), framework.WithDialer(s.server.Dial))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitConnected(t.Context()))
	return c
}

// viewer is a tab of a browser, and what its console has said.
type viewer struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	mistakes []string
	dialogs  int
}

// newViewer starts a browser with a window of this size. The end of the test ends it.
func newViewer(t *testing.T, wide, high int) *viewer {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "integration/setup installs it: apt-get install chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(wide, high), chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	t.Cleanup(cancel)
	ctx, endBrowser := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(endBrowser)
	ctx, endTab := chromedp.NewContext(ctx)
	t.Cleanup(endTab)
	v := &viewer{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, v.hear))
	command(v, runtime.Enable, cdp.Empty{})
	command(v, log.Enable, cdp.Empty{})
	command(v, page.Enable, page.EnableParams{})
	v.do(chromedp.EmulateViewport(int64(wide), int64(high)))
	return v
}

// hear takes down what went wrong in the page: what its scripts throw, and what the policy forbids.
func (v *viewer) hear(event any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		v.mistakes = append(v.mistakes, fmt.Sprint(e.ExceptionDetails.Text, ' ', e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			v.mistakes = append(v.mistakes, fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text))
		}
	case *page.EventJavascriptDialogOpening:
		v.dialogs++
	}
}

// fine says that nothing went wrong in the page.
func (v *viewer) fine() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	assert.Empty(v.t, v.mistakes)
	assert.Zero(v.t, v.dialogs)
}

func (v *viewer) do(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	require.NoError(v.t, chromedp.Do(v.ctx, steps...))
}

func command[P, R any](v *viewer, what cdp.Command[P, R], params P) {
	v.t.Helper()
	_, err := chromedp.Call(v.ctx, what, params)
	require.NoError(v.t, err)
}

func (v *viewer) open(url string) {
	v.t.Helper()
	v.do(chromedp.Navigate(url))
	v.until("the page shows the lines", `document.querySelector('#n-lines')?.textContent.match(/^[0-9]/)`)
}

// ask evaluates an expression in the page.
func ask[T any](v *viewer, expression string) T {
	v.t.Helper()
	answer, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression))
	require.NoError(v.t, err, expression)
	return answer
}

// until waits until an expression is true in the page.
func (v *viewer) until(what, expression string) {
	v.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if ask[bool](v, "!!("+expression+")") {
			return
		}
		if time.Now().After(end) {
			v.shoot("failed")
			require.FailNow(v.t, "not in time: "+what, "%s\n%q", v.text(), v.mistakes)
		}
	}
}

// text is what can be read on the page.
func (v *viewer) text() string { return ask[string](v, "document.body.innerText") }

func (v *viewer) dark(is bool) {
	v.t.Helper()
	scheme := "light"
	if is {
		scheme = "dark"
	}
	command(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// shoot keeps a picture of the window.
func (v *viewer) shoot(name string) {
	v.t.Helper()
	dir := os.Getenv("CURATOR_TEST_ARTIFACTS")
	if dir == "" {
		dir = v.t.TempDir()
	}
	picture, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
	require.NoError(v.t, err)
	require.Greater(v.t, len(picture), 5000, "a picture of something")
	path := filepath.Join(dir, "web-"+name+".png")
	require.NoError(v.t, os.WriteFile(path, picture, 0o644))
	v.t.Log("a picture:", path, len(picture), "bytes")
}

// has waits until the page's text has all of these.
func (v *viewer) has(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		v.until("the page has "+text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
	}
}

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }
