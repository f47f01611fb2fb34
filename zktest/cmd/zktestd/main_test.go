package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFlagsBecomeTheConfig(t *testing.T) {
	s, err := parse([]string{
		"-members", "3", "-trace", "-addr", "127.0.0.1:0", "-profile", "3.9.5", "-tick", "500ms",
		"-min-session-timeout", "1s", "-max-session-timeout", "10m",
		"-max-frame", "4096", "-max-client-conns", "7",
		"-ttl=false", "-reap", "5s", "-enforce-quota",
		"-super-digest", "super:x=", "-require-auth",
		"-sasl", "alice:a:b", "-sasl", "bob:", "-require-sasl",
		"-reconfig", "-read-only", "-local-sessions",
		"-sync-limit", "2", "-election-time", "1s", "-lag", "2s", "-peer-delay", "3s",
	}, io.Discard)
	require.NoError(t, err)
	require.NotNil(t, s.cfg.Logger)
	s.cfg.Logger = nil
	assert.Equal(t, settings{members: 3, trace: true, cfg: zktest.Config{
		Listen: "127.0.0.1:0", Profile: zktest.V39, TickTime: 500 * time.Millisecond,
		MinSessionTimeout: time.Second, MaxSessionTimeout: 10 * time.Minute,
		MaxFrame: 4096, MaxClientConns: 7,
		ReapInterval: 5 * time.Second, EnforceQuota: true,
		SuperDigest: "super:x=", RequireAuth: true,
		SASLUsers: map[string]string{"alice": "a:b", "bob": ""}, RequireSASL: true,
		Reconfig: true, ReadOnlyMode: true, LocalSessions: true,
		SyncLimit: 2, ElectionTime: time.Second, Lag: 2 * time.Second, PeerDelay: 3 * time.Second,
	}}, s)
}

func TestFlagsThatAreWrong(t *testing.T) {
	for _, args := range []string{
		"-profile 4.0", "-sasl nopassword", "-sasl secret", "-sasl :secret", "-nosuch", "-tick soon",
	} {
		var said bytes.Buffer
		_, err := parse(strings.Fields(args), &said)
		assert.ErrorIs(t, err, errFlags, args)
		assert.NotEmpty(t, said.String(), args)
		assert.NotContains(t, said.String(), "secret", args)
		assert.NotContains(t, err.Error(), "secret", args)
	}
	_, err := parse([]string{"-sasl", "alice:", "secret"}, io.Discard)
	assert.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
	_, err = parse([]string{"127.0.0.1:2181"}, io.Discard)
	assert.ErrorContains(t, err, "-help")
	_, err = parse([]string{"-help"}, io.Discard)
	assert.ErrorIs(t, err, flag.ErrHelp)
	err = run([]string{"-min-session-timeout", "1h"}, io.Discard, io.Discard, nil)
	assert.ErrorContains(t, err, "MinSessionTimeout")
	assert.Error(t, run([]string{"-members", "0"}, io.Discard, io.Discard, nil))
}

// quiet discards go-zookeeper's log lines.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

func TestServesUntilItIsEnded(t *testing.T) {
	for name, flags := range map[string][]string{
		"one":   {"-max-session-timeout", "3s", "-min-session-timeout", "1s"},
		"three": {"-members", "3", "-trace"},
	} {
		t.Run(name, func(t *testing.T) {
			end, out := make(chan os.Signal), make(chan error, 1)
			said, says := io.Pipe()
			go func() {
				err := run(append(flags, "-addr", "127.0.0.1:0"), says, io.Discard, end)
				_ = says.Close()
				out <- err
			}()
			line := make([]byte, 1000)
			n, err := said.Read(line)
			require.NoError(t, err)
			_, addrs, found := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
			require.True(t, found, "%s", line[:n])
			c, events, err := zk.Connect(strings.Split(addrs, ","), 10*time.Second, zk.WithLogger(quiet{}))
			require.NoError(t, err)
			for (<-events).State != zk.StateHasSession {
			}
			_, err = c.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			c.Close()
			close(end)
			rest, err := io.ReadAll(said)
			require.NoError(t, err)
			require.NoError(t, <-out)
			assert.Equal(t, name == "three", strings.Contains(string(rest), "create"), "its trace")
		})
	}
}
