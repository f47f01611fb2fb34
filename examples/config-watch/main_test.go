package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDemonstration(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) { require.NoError(t, run(t.Context(), nil, &out), &out) })
	assert.Contains(t, out.String(), "keeping what it has: /curator/config-watch/limits: invalid character")
	assert.Contains(t, out.String(), "followed every change")
	t.Log(out.String())
}

func TestNothingIsLeftBehind(t *testing.T) {
	server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
	args := []string{"-servers", server.Addr(), "-path", "/config/shop"}
	require.NoError(t, run(t.Context(), args, io.Discard))
	assert.False(t, server.Exists("/config/shop"))
	assert.Empty(t, server.Sessions())
}

func TestWatching(t *testing.T) {
	server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, server.Create("/config/shop/log-level", []byte("trace")))
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string, 100)
	ended := make(chan error, 1)
	args := []string{"-servers", server.Addr(), "-path", "/config/shop", "-watch"}
	go func() { ended <- run(ctx, args, writer(seen)) }()
	assert.Equal(t, `  service: log level "trace", 100 requests/s, features []`+"\n", <-seen)
	require.NoError(t, server.Set("/config/shop/log-level", []byte("error")))
	assert.Equal(t, `  service: log level "error", 100 requests/s, features []`+"\n", <-seen)
	// A terminal's control characters are printed in escaped form.
	require.NoError(t, server.Set("/config/shop/log-level", []byte("\x1b[2Jinfo\n")))
	assert.Equal(t, `  service: log level "\x1b[2Jinfo\n", 100 requests/s, features []`+"\n", <-seen)
	cancel()
	require.NoError(t, <-ended)
}

type writer chan string

func (w writer) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-watch"}, {"surplus"}, {"-unknown"}, {"-servers", "x:y:z"}, {"-path", "relative"},
	} {
		require.Error(t, run(t.Context(), args, io.Discard), args)
	}
}
