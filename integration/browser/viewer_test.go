package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
)

// viewer is a tab of the browser, and the mistakes in it.
type viewer struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	mistakes []string // guarded by mu, as all below
	dialogs  int
}

// newViewer opens a tab of this size. The end of the test closes it.
func newViewer(t *testing.T, wide, high int) *viewer {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 5*limit)
	t.Cleanup(cancel)
	v := &viewer{t: t, ctx: ctx}
	v.do() // opens it
	require.NoError(t, chromedp.Listen(ctx, v.hear))
	command(v, runtime.Enable, cdp.Empty{})
	command(v, log.Enable, cdp.Empty{})
	command(v, page.Enable, page.EnableParams{})
	v.do(chromedp.EmulateViewport(int64(wide), int64(high)))
	return v
}

// hear records mistakes in the page: exceptions of its scripts, and violations of its policy.
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

// fine asserts that there was no mistake in the page.
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

func command[P, R any](v *viewer, what cdp.Command[P, R], params P) R {
	v.t.Helper()
	answer, err := chromedp.Call(v.ctx, what, params)
	require.NoError(v.t, err)
	return answer
}

// open opens the page, and waits until it shows the lines.
func (v *viewer) open(url string) {
	v.t.Helper()
	v.do(chromedp.Navigate(url))
	v.until("the page shows the lines", `document.querySelector('#n-lines')?.textContent.match(/^[0-9]/)`)
}

// ask evaluates an expression in the page.
func ask[T any](v *viewer, expression string, options ...chromedp.EvaluateOption) T {
	v.t.Helper()
	answer, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression, options...))
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

// has waits until the page's text has all of these.
func (v *viewer) has(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		v.until("the page has "+text, "document.body.innerText.includes("+quoted(text)+")")
	}
}

// quoted returns a text as a script writes it.
func quoted(text string) string {
	all, _ := json.Marshal(text)
	return string(all)
}

// text returns the visible text of the page.
func (v *viewer) text() string { v.t.Helper(); return ask[string](v, "document.body.innerText") }

// click clicks with the mouse on the first element that the selector selects.
func (v *viewer) click(selector string) {
	v.t.Helper()
	v.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys of the keyboard.
func (v *viewer) press(keys ...string) {
	v.t.Helper()
	for _, key := range keys {
		v.do(chromedp.KeyEvent(key))
	}
}

func (v *viewer) dark(is bool) {
	v.t.Helper()
	scheme := "light"
	if is {
		scheme = "dark"
	}
	command(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// shoot saves a picture of the window.
func (v *viewer) shoot(name string) (picture []byte) {
	v.t.Helper()
	picture, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
	require.NoError(v.t, err)
	require.Greater(v.t, len(picture), 5000, "a picture of something")
	path := filepath.Join(artifacts(v.t), "web-"+name+".png")
	require.NoError(v.t, os.WriteFile(path, picture, 0o644))
	v.t.Logf("picture: %s, %d bytes", path, len(picture))
	return picture
}

// artifacts returns the directory for pictures. It is created for the first picture, and kept.
var artifacts = func() func(t *testing.T) string {
	var once sync.Once
	dir := os.Getenv("CURATOR_TEST_ARTIFACTS")
	return func(t *testing.T) string {
		once.Do(func() {
			var err error
			if dir == "" {
				dir, err = os.MkdirTemp("", "curator-pictures-")
			} else {
				err = os.MkdirAll(dir, 0o755)
			}
			require.NoError(t, err)
		})
		return dir
	}
}()
