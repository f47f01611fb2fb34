package shell_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
)

// says starts a server that replies to every word with answer, and then closes the connection.
func says(t *testing.T, answer string, config *tls.Config) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(c, word); err == nil {
				_, _ = io.WriteString(c, answer)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestFourLetterWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var answers []struct {
		Server, Text string
		Values       map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(b.ok("4lw", "mntr", "-o", "json")), &answers))
	require.Len(t, answers, 1)
	assert.Equal(t, "standalone", answers[0].Values["zk_server_state"])
	assert.Contains(t, answers[0].Text, "zk_server_state\tstandalone\n")

	_, err := b.runs("", "4lw", "stat", "--server", says(t, "stat is not executed because it is not in the whitelist.\n", nil))
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "4lw.commands.whitelist")
	assert.ErrorContains(t, err, "AdminServer")
	_, err = b.runs("", "4lw", "stat", "--server", says(t, "", nil))
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "without an answer")

	out, err := b.runs("", "4lw", "ruok", "--server", says(t, "im\x1b[2Jok\xff", nil), "--server", "127.0.0.1:1", "--server", b.srv.Addr())
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "1 of 3")
	assert.Contains(t, out, "im\\x1b[2Jok\\xff\n== 127.0.0.1:1\n")
	assert.Contains(t, out, "== "+b.srv.Addr()+"\nimok\n")

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	_, err = b.runs("", "4lw", "ruok", "--server", silent.Addr().String(), "--timeout", "50ms")
	require.ErrorIs(t, err, shell.ErrNo)
	assert.ErrorContains(t, err, "no reply in time (--timeout 50ms)")
}

func TestFourLetterWordsEncrypted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	addr := says(t, "imok", cert.TLS)
	_, err := b.runs("", "4lw", "ruok", "--server", addr, "--timeout", "100ms")
	require.ErrorIs(t, err, shell.ErrNo)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Certificate())
	b.tls = []framework.Option{framework.WithTLS(&tls.Config{RootCAs: roots})}
	assert.Equal(t, "imok\n", b.ok("4lw", "ruok", "--server", addr))
}
