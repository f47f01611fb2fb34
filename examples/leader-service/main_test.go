package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(isCopy) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// Three processes, a SIGTERM and a SIGKILL, with session timeouts that are long enough for a busy machine.
func TestDemonstration(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-session-timeout", "20s"}
	require.NoError(t, run(t.Context(), args, strings.NewReader(""), &out), "%v", &out)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Equal(t, "leader-service: 3 copies led one after the other, and nothing is left behind",
		lines[len(lines)-1])
	require.Equal(t, 3, strings.Count(out.String(), ": leading, fencing token "))
	require.Equal(t, 2, strings.Count(out.String(), "was asked to work: done by http://127.0.0.1:"))
	require.Regexp(t, `copy \d: not leading any more: (context canceled|terminated signal received)`,
		out.String())
	require.Regexp(t, `handed over in \d+m?s?`, out.String())
	require.Regexp(t, `replaced after \d`, out.String())
}

func TestMistakes(t *testing.T) {
	for _, mistake := range []struct {
		args []string
		says string
	}{
		{[]string{"localhost:2181"}, "only flags"},
		{[]string{"-servers", "localhost:port"}, "port"},
		{[]string{"-servers", "localhost:1", "-path", "leaders"}, `must start with "/"`},
		{[]string{"-servers", "localhost:1", "-http", "nowhere"}, "nowhere"},
		{[]string{"-session-timeout", "soon"}, "soon"},
	} {
		err := run(t.Context(), mistake.args, strings.NewReader(""), &bytes.Buffer{})
		require.ErrorContains(t, err, mistake.says, "%v", mistake.args)
	}
}

// Any client that may join the election chooses the address that is shown, and to which clients are sent. A value that
// is not an address is not used.
func TestWhoeverLeadsHasChosenItsAddress(t *testing.T) {
	server := zktest.RunT(t)
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	require.NoError(t, err)
	defer client.Close()
	c := &service{settings: settings{address: "http://here"}, client: client}
	c.selector = leader.NewSelector(client, "/election", c.lead)
	for id, shown := range map[string]string{
		"http://other:80":                 `"http://other:80"`,
		"http://a/\u202e":                 `"http://a/\u202e"`,
		"<script>alert(1)</script>":       `""`,
		"javascript:alert(1)":             `""`,
		"http://other\r\nSet-Cookie: a=b": `""`,
		"\x1b[2J":                         `""`,
	} {
		c.seen.Store(&leader.Observation{Leader: leader.Participant{ID: id}})
		page, work := httptest.NewRecorder(), httptest.NewRecorder()
		c.handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Contains(t, page.Body.String(), "leader: "+shown+"\n")
		require.Equal(t, "text/plain; charset=utf-8", page.Header().Get("Content-Type"))
		c.handler().ServeHTTP(work, httptest.NewRequest(http.MethodPost, "/work", nil))
		if shown == `""` {
			require.Equal(t, http.StatusServiceUnavailable, work.Code, id)
		}
	}
}
