package inspecthttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	inspecthttp "github.com/go-curator/curator/inspect/http"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// post sends a request to delete, as the page does; change modifies the request first.
func post(p http.Handler, token, body string, change func(*http.Request)) (status int, answer string) {
	r := httptest.NewRequest(http.MethodPost, "/debug/curator/delete", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Curator-Token", token)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Origin", "http://"+r.Host)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(text)
}

func named(l line, p participant) string { return fmt.Sprintf(`{"line":%d,"key":%q}`, l.ID, p.Key) }

func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, holder := newClient(t, s), newClient(t, s)
		lock, err := mutex.New(holder, "/locks/a", mutex.WithNodeData([]byte("stuck"))).Acquire(background)
		require.NoError(t, err)
		stand(t, c, "/locks/a/"+name+"9", "next")
		p := newPage(t, c, "/locks", inspecthttp.WithDelete())
		v := look(t, p)
		token := v.config.Config.Token
		assert.Len(t, token, 26)
		assert.True(t, v.config.Config.Delete)
		l := v.line("/locks/a")
		good := named(l, l.Holders[0])

		for what, change := range map[string]func(*http.Request){
			"without the token":       func(r *http.Request) { r.Header.Del("X-Curator-Token") },
			"with another token":      func(r *http.Request) { r.Header.Set("X-Curator-Token", strings.Repeat("A", 26)) },
			"from another site":       func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"from a neighbour":        func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
			"typed into the address":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") },
			"from another origin":     func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://evil.example") },
			"from no origin":          func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") },
			"without saying where":    func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Del("Origin") },
			"without either, no body": func(r *http.Request) { r.Header = http.Header{}; r.Body = http.NoBody },
		} {
			status, _ := post(p, token, good, change)
			assert.Equal(t, http.StatusForbidden, status, what)
		}
		for body, want := range map[string]int{
			"":             http.StatusBadRequest,
			"{":            http.StatusBadRequest,
			`{"line":"x"}`: http.StatusBadRequest,
			fmt.Sprintf(`{"line":%d,"key":"1"}`, l.ID):    http.StatusNotFound,
			fmt.Sprintf(`{"line":%d,"key":"0"}`, l.ID):    http.StatusNotFound,
			`{"line":12345,"key":"1"}`:                    http.StatusNotFound,
			`{"key":"` + strings.Repeat("1", 5000) + `"}`: http.StatusBadRequest,
			`{"line":1,"key":"99999999999999999999"}`:     http.StatusBadRequest,
		} {
			status, _ := post(p, token, body, nil)
			assert.Equal(t, want, status, "%.100s", body)
		}
		require.NoError(t, lock.Context().Err(), "nothing was deleted so far")

		status, text := post(p, token, good, nil)
		assert.Equal(t, http.StatusNoContent, status, text)
		<-lock.Context().Done()
		v.settle()
		assert.Equal(t, []string{"next"}, v.texts(v.line("/locks/a").Holders))
		status, _ = post(p, token, good, nil)
		assert.Equal(t, http.StatusNotFound, status, "it is gone")

		l = v.line("/locks/a")
		status, text = post(p, token, named(l, l.Holders[0]), func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") })
		assert.Equal(t, http.StatusNoContent, status, "an older browser: %s", text)
	})
}

func TestDeleteOnlyIfAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/locks/a/"+name+"0", "me")
		p := newPage(t, c, "/locks")
		v := look(t, p)
		l := v.line("/locks/a")
		for _, token := range []string{"", v.config.Config.Token} {
			status, text := post(p, token, named(l, l.Holders[0]), nil)
			assert.Equal(t, http.StatusForbidden, status)
			assert.Contains(t, text, "read-only")
		}
		assert.True(t, s.Exists("/locks/a/"+name+"0"))
	})
}

// If another node has taken the place of the one that was shown, it is not deleted.
func TestDeleteWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		owner := newClient(t, s, framework.WithAuth("digest", []byte("o:w")))
		stand(t, c, "/locks/a/"+name+"0", "me")
		stand(t, owner, "/locks/b/"+name+"0", "me")
		_, err := owner.SetACL().WithACL(framework.DigestACL(framework.PermAll, "o", "w"), framework.ReadACL()[0]).
			ForPath(background, "/locks/b")
		require.NoError(t, err)
		p := newPage(t, c, "/locks", inspecthttp.WithDelete())
		v := look(t, p)
		token := v.config.Config.Token
		a, b := v.line("/locks/a"), v.line("/locks/b")
		status, text := post(p, token, named(b, b.Holders[0]), nil)
		assert.Equal(t, http.StatusForbidden, status, text)
		assert.Contains(t, text, "no permission")

		// Another node in its place, which the page has not seen yet: the events are late.
		shown := a.Holders[0]
		s.Delay(s.Sessions()[0].ID, time.Second)
		require.NoError(t, s.Delete("/locks/a/"+name+"0"))
		stand(t, owner, "/locks/a/"+name+"0", "another")
		status, _ = post(p, token, named(a, shown), nil)
		assert.Equal(t, http.StatusNotFound, status)
		assert.True(t, s.Exists("/locks/a/"+name+"0"))
	})
}
