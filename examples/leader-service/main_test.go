package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(isCopy) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// Three processes, a SIGTERM and a SIGKILL.
func TestDemonstration(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	require.NoError(t, run(t.Context(), nil, strings.NewReader(""), &out), "%v", &out)
	require.Less(t, time.Since(began), 30*time.Second)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Equal(t, "leader-service: 3 copies led one after the other, the last one is gone, and nothing is left behind", lines[len(lines)-1])
	require.Equal(t, 3, strings.Count(out.String(), ": leading, fencing token "))
	require.Equal(t, 2, strings.Count(out.String(), "was asked to work: done by http://127.0.0.1:"))
	require.Regexp(t, `copy \d: not leading any more: (context canceled|terminated signal received)`, out.String())
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
		require.ErrorContains(t, run(t.Context(), mistake.args, strings.NewReader(""), &bytes.Buffer{}), mistake.says, "%v", mistake.args)
	}
}
