package inspecthttp_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	inspecthttp "github.com/go-curator/curator/inspect/http"
	"github.com/go-curator/curator/zktest"
)

func get(p http.Handler, method, target string) *http.Response {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Result()
}

// Every response has the headers that keep other sites out.
func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, newClient(t, zktest.RunT(t)), "/")
		for target, want := range map[string]struct {
			method, kind string
			status       int
		}{
			"/debug/curator/":             {"GET", "text/html; charset=utf-8", 200},
			"/debug/curator/index.html":   {"HEAD", "text/html; charset=utf-8", 200},
			"/debug/curator/style.css":    {"GET", "text/css; charset=utf-8", 200},
			"/page.js":                    {"GET", "text/javascript; charset=utf-8", 200},
			"/draw.js":                    {"GET", "text/javascript; charset=utf-8", 200},
			"/debug/curator/icon.svg":     {"GET", "image/svg+xml", 200},
			"/debug/curator/doc.go":       {"GET", "text/plain; charset=utf-8", 404},
			"/debug/curator/..%2fpage.go": {"GET", "text/plain; charset=utf-8", 404},
			"/debug/curator/x/..":         {"GET", "text/plain; charset=utf-8", 404},
			"/debug/curator/static":       {"GET", "text/plain; charset=utf-8", 404},
			"/debug/curator/delete":       {"GET", "text/plain; charset=utf-8", 405},
			"/debug/curator/page.js":      {"POST", "text/plain; charset=utf-8", 405},
			"/debug/curator/events":       {"POST", "text/plain; charset=utf-8", 405},
		} {
			r := get(p, want.method, target)
			assert.Equal(t, want.status, r.StatusCode, target)
			assert.Equal(t, want.kind, r.Header.Get("Content-Type"), target)
			protected(t, r.Header)
		}
		assert.Equal(t, "POST", get(p, "GET", "/delete").Header.Get("Allow"))

		v := look(t, p)
		protected(t, v.header)
		assert.Equal(t, "text/event-stream; charset=utf-8", v.header.Get("Content-Type"))
	})
}

func protected(t *testing.T, h http.Header) {
	t.Helper()
	policy := h.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
		assert.Contains(t, policy, part)
	}
	assert.NotContains(t, policy, "unsafe")
	assert.NotContains(t, policy, "*")
	assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	assert.Equal(t, "DENY", h.Get("X-Frame-Options"))
	assert.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	assert.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
	assert.Equal(t, "no-store", h.Get("Cache-Control"))
	assert.Empty(t, h.Get("Access-Control-Allow-Origin"))
}

// The page loads no files of other sites, and has no code that turns text into markup.
func TestFilesStandAlone(t *testing.T) {
	files, err := fs.Glob(os.DirFS("static"), "*")
	require.NoError(t, err)
	assert.Len(t, files, 5)
	for _, file := range files {
		content, err := os.ReadFile("static/" + file)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		for _, no := range []string{"http:", "https:", "//cdn", "@import", "url(", "innerHTML", "outerHTML",
			"insertAdjacentHTML", "document.write", "eval(", "Function(", " style=", "onclick=", "srcdoc", "javascript:"} {
			assert.NotContains(t, text, no, file)
		}
	}
}

func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, zktest.RunT(t))
		p := newPage(t, c, "/", inspecthttp.WithHosts("localhost", "127.0.0.1", "::1", "2001:DB8:0:0::7"))
		for host, served := range map[string]bool{
			"localhost": true, "LOCALHOST:80": true, "127.0.0.1:8180": true, "[::1]:8180": true, "[::1]": true,
			"evil.example": false, "evil.example:8180": false, "localhost.evil.example": false, "": false,
			"[2001:db8::7]": true, "[2001:0DB8::7]:80": true, "[0:0:0:0:0:0:0:1]": true, "[2001:db8::8]": false,
			"127.0.0.1.evil.example": false, "localhost:80:80": false,
		} {
			for _, path := range []string{"/", "/page.js", "/events", "/delete"} {
				r := httptest.NewRequest(http.MethodHead, path, nil)
				r.Host = host
				w := httptest.NewRecorder()
				p.ServeHTTP(w, r)
				assert.Equal(t, served, w.Code != http.StatusMisdirectedRequest, "%q %s", host, path)
				protected(t, w.Header())
			}
		}
		for _, bad := range []string{"", "a:80", "http://a", "[::1]"} {
			_, err := inspecthttp.New(c, "/", inspecthttp.WithHosts(bad))
			assert.ErrorIs(t, err, framework.ErrInvalidOption, bad)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, zktest.RunT(t))
		for _, c := range []struct {
			client *framework.Client
			root   string
			opt    inspecthttp.Option
			want   error
		}{
			{nil, "/", inspecthttp.WithDelete(), framework.ErrNoClient},
			{&framework.Client{}, "/", inspecthttp.WithDelete(), framework.ErrNoClient},
			{c, "locks", inspecthttp.WithDelete(), framework.ErrInvalidPath},
			{c, "/locks/", inspecthttp.WithDelete(), framework.ErrInvalidPath},
			{c, "", inspecthttp.WithDelete(), framework.ErrInvalidPath},
			{c, "/", nil, framework.ErrInvalidOption},
		} {
			_, err := inspecthttp.New(c.client, c.root, c.opt)
			assert.ErrorIs(t, err, c.want)
		}
	})
}

// A page of another site cannot use up the places of viewers.
func TestEventsOfAnotherSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, newClient(t, zktest.RunT(t)), "/")
		r := httptest.NewRequest(http.MethodGet, "/events", nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		assert.Equal(t, http.StatusForbidden, w.Code)
	})
}
