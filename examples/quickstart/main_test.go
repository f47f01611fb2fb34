package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuickstart(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, run(t.Context(), []string{"-workers", "3", "-rounds", "4"}, &out), out.String())
		require.Less(t, time.Since(began), 5*time.Second)
	})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Equal(t, "quickstart: 12 grants to 3 workers, never two at once", lines[len(lines)-1])
	grant := regexp.MustCompile(`(?m)grant +\d+: worker [123], fencing token \d+, waited `)
	require.Len(t, grant.FindAllString(out.String(), -1), 12)
	require.Regexp(t, `worker \d stops, \S+ later: session lost`, out.String())
}

func TestMistakes(t *testing.T) {
	for _, mistake := range []struct {
		args []string
		says string
	}{
		{[]string{"-workers", "0"}, "at least one"},
		{[]string{"-rounds", "-1"}, "at least one"},
		{[]string{"localhost:2181"}, "only flags"},
		{[]string{"-path", "locks"}, `must start with "/"`},
		{[]string{"-servers", "localhost:port"}, "port"},
	} {
		err := run(t.Context(), mistake.args, &bytes.Buffer{})
		require.ErrorContains(t, err, mistake.says, "%v", mistake.args)
	}
}

type fake struct {
	ctx   context.Context
	token int64
}

func (f fake) Context() context.Context { return f.ctx }
func (f fake) FencingToken() int64      { return f.token }

func TestLedgerFindsViolations(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	live := context.Background()
	for _, c := range []struct {
		first, second fake
		says          string
	}{
		{fake{over, 1}, fake{live, 2}, ""},
		{fake{live, 1}, fake{live, 2}, "while worker 1 still had it"},
		{fake{over, 2}, fake{live, 2}, "with token 2, after worker 1 with 2"},
	} {
		l := &ledger{out: &bytes.Buffer{}, began: time.Now(), unplugAt: 2}
		require.False(t, l.granted(1, c.first, 0))
		require.True(t, l.granted(2, c.second, 0))
		if c.says == "" {
			require.NoError(t, l.failure)
		} else {
			require.ErrorContains(t, l.failure, c.says)
		}
	}
}
