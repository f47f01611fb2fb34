//go:build linux || darwin

package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// certificate returns a self-signed certificate for 127.0.0.1, and a file for --tls-ca.
func (b *bed) certificate(name string) (own tls.Certificate, ca string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(b, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(b, err)
	ca = b.file(name)
	require.NoError(b, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca
}

// mute returns the address of a server that accepts connections, with TLS if it has a certificate, and replies to nothing.
func (b *bed) mute(own ...tls.Certificate) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	if len(own) > 0 {
		listener = tls.NewListener(listener, &tls.Config{Certificates: own})
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { _, _ = io.Copy(io.Discard, conn); conn.Close() }) // until the program closes it
		}
	})
	b.Cleanup(func() { listener.Close(); all.Wait() })
	return listener.Addr().String()
}

// doctor does not report a missing quorum if no server can be reached. It reports why they cannot be.
func TestDoctorOfServersThatCannotBeReached(t *testing.T) {
	t.Parallel()
	b := &bed{T: t, dir: t.TempDir()}
	own, _ := b.certificate("own.pem")
	_, other := b.certificate("other.pem")
	for _, tt := range []struct {
		args      []string
		why, next string
	}{
		{[]string{"--servers", b.mute(own), "--connect-timeout", "4s"}, "(silent: 1)", "this port expects TLS (its secureClientPort)"},
		{[]string{"--servers", "127.0.0.1:1,127.0.0.1:2"}, "(refused: 2)", "the server 127.0.0.1:2 refuses connections: "},
		{[]string{"--servers", b.mute(own), "--tls-ca", other}, "(no TLS connection: 1)", "not signed by a CA that this client trusts"},
		{[]string{"--servers", b.mute(), "--connect-timeout", "2s"}, "(silent: 1)", "it hangs, its machine or the network is down"},
	} {
		code, out, err := b.runs(append([]string{"doctor"}, tt.args...)...)
		assert.Equal(t, 1, code)
		assert.Empty(t, err)
		assert.Contains(t, out, "advice: cannot reach the servers: none that the client tries replies "+tt.why)
		assert.Contains(t, out, tt.next)
		assert.NotContains(t, out, "there is no quorum")
	}
	_, out, _ := b.runs("doctor", "--servers", b.mute(own), "--connect-timeout", "4s")
	assert.Regexp(t, `cannot reach the servers: .*; the client's last attempt: .*secureClientPort.*needs WithTLS`, out)
	_, out, _ = b.runs("doctor", "--servers", b.mute(), "--connect-timeout", "1ms")
	assert.NotContains(t, out, "for 0s")
	assert.NotContains(t, out, "it hangs", "it had no time to answer")
}

// A timeout of zero or less is an error of usage, and no result about the servers.
func TestConnectTimeoutHasToBePositive(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, wrong := range []string{"0", "0s", "-1s"} {
		for _, command := range [][]string{{"doctor"}, {"who", path}, {"lock", path, "--", "true"}} {
			args := append([]string{command[0], "--connect-timeout", wrong}, command[1:]...)
			code, out, err := b.runs(args...)
			assert.Equal(t, 124, code, args)
			assert.Empty(t, out, args)
			assert.Contains(t, err, "--connect-timeout has to be more than 0", args)
		}
	}
	b.env = append(b.env, "CURATOR_CONNECT_TIMEOUT=0s")
	code, _, err := b.runs("doctor")
	assert.Equal(t, 124, code, err)
}

// doctor waits for a server that hangs for --connect-timeout, and no longer.
func TestDoctorOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	own, ca := b.certificate("own.pem")
	for name, tt := range map[string]struct {
		args []string
		op   zktest.Op // to which the server does not reply
		says string
	}{
		"after the connection":    {[]string{"--servers", b.mute()}, "", "cannot reach the servers: "},
		"after the TLS handshake": {[]string{"--servers", b.mute(own), "--tls-ca", ca}, "", "cannot reach the servers: "},
		"before the session":      {nil, zktest.OpConnect, "the client is not connected to a quorum: "},
		"in the session":          {nil, zktest.OpExists, "the server does not reply to reads: "},
	} {
		var hung *zktest.Injection
		if tt.op != "" {
			hung = b.srv.Inject(zktest.Fault{Op: tt.op, Action: zktest.DropRequest, Times: -1})
		}
		began := time.Now()
		code, out, err := b.runs(append([]string{"doctor", "--connect-timeout", "2s"}, tt.args...)...)
		assert.Less(t, time.Since(began), limit/4, name)
		assert.Equal(t, 1, code, name)
		assert.Empty(t, err, name)
		assert.Contains(t, out, "advice: "+tt.says, name)
		if hung != nil {
			hung.Remove()
			assert.Equal(t, "standalone", strings.Fields(strings.Split(out, "\n")[1])[1], name)
		}
	}
}
