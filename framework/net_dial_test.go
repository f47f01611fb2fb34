package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestEncrypt(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	trust := x509.NewCertPool()
	trust.AddCert(srv.Certificate())

	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	cfg := &tls.Config{RootCAs: trust}
	secure, err := handshakeTLS(t.Context(), conn, cfg, addr)
	require.NoError(t, err)
	assert.True(t, secure.(*tls.Conn).ConnectionState().HandshakeComplete)
	assert.Empty(t, cfg.ServerName, "the caller's configuration stays as it is")
	require.NoError(t, secure.Close())

	conn, err = net.Dial("tcp", addr)
	require.NoError(t, err)
	_, err = handshakeTLS(t.Context(), conn, &tls.Config{RootCAs: x509.NewCertPool()}, addr)
	require.ErrorContains(t, err, "TLS handshake")
	_, err = conn.Write([]byte{0})
	assert.ErrorIs(t, err, net.ErrClosed)
}

// A ZooKeeper behind TLS, as its secureClientPort is.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer web.Close()
	srv := zktest.RunT(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	require.NoError(t, err)
	var proxies sync.WaitGroup
	proxies.Go(func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			inside, err := srv.Dial(t.Context(), "", "")
			if err != nil {
				outside.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{outside, inside}, {inside, outside}} {
				proxies.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					way[0].Close()
					way[1].Close()
				})
			}
		}
	})
	trust := x509.NewCertPool()
	trust.AddCert(web.Certificate())
	c, err := New(listener.Addr().String(), WithTLS(&tls.Config{RootCAs: trust}))
	require.NoError(t, err)
	_, err = c.Create().ForPath(t.Context(), "/secret", nil)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	stranger, err := New(listener.Addr().String(), WithTLS(&tls.Config{RootCAs: x509.NewCertPool()}))
	require.NoError(t, err)
	for stranger.core.connectFailure.lastFailure() == nil {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = stranger.WaitConnected(ctx)
	var unknown x509.UnknownAuthorityError
	assert.ErrorAs(t, err, &unknown)
	assert.ErrorContains(t, err, "TLS handshake")
	assert.ErrorIs(t, err, ErrTLS)
	require.NoError(t, stranger.Close())
	listener.Close()
	proxies.Wait()
}

func TestTrouble(t *testing.T) {
	var tr connectFailure
	assert.NoError(t, tr.lastFailure())
	tr.recordFailure("zk:2181", errors.New("connection refused"))
	assert.EqualError(t, tr.lastFailure(), "zk:2181: connection refused")
	tr.recordFailure("zk:2181", errors.New("dial tcp zk:2181: no route"))
	assert.EqualError(t, tr.lastFailure(), "dial tcp zk:2181: no route")
	tr.recordFailure("", nil)
	assert.NoError(t, tr.lastFailure())
}
