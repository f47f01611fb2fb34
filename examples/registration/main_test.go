package main

import (
	"bytes"
	"context"
	"io"
	"strings"
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
	assert.Contains(t, out.String(), `host-1 sees host-1: {"Address":"10.0.0.1:80","Version":"1.0"}`)
	assert.Contains(t, out.String(), `host-1 sees host-1: {"Address":"10.0.0.1:8080","Version":"1.0"}`)
	assert.Contains(t, out.String(), `host-2 sees host-2`)
	t.Log(out.String())
}

func TestRegistering(t *testing.T) {
	server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string, 100)
	ended := make(chan error, 1)
	args := []string{"-servers", server.Addr(), "-id", "host-7", "-address", "10.0.0.7:80"}
	go func() { ended <- run(ctx, args, writer(seen)) }()
	for text := ""; !strings.Contains(text, "host-7 joined"); text = <-seen {
	}
	data, _, err := server.Get("/services/web/host-7")
	require.NoError(t, err)
	assert.JSONEq(t, `{"Address":"10.0.0.7:80","Version":""}`, string(data))
	cancel()
	require.NoError(t, <-ended)
	assert.False(t, server.Exists("/services/web/host-7"))
	assert.Empty(t, server.Sessions())
}

type writer chan string

func (w writer) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{
		{"surplus"}, {"-unknown"}, {"-servers", "x:y:z"}, {"-servers", "x:1", "-id", "a/b"},
	} {
		require.Error(t, run(t.Context(), args, io.Discard), args)
	}
}
