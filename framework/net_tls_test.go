package framework

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// selfSigned returns a certificate and its key in PEM form.
func selfSigned(t *testing.T, name string, until time.Time, uses ...x509.ExtKeyUsage) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, IsCA: true, ExtKeyUsage: uses,
		BasicConstraintsValid: true, NotBefore: until.Add(-2 * time.Hour), NotAfter: until}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
}

func writeFile(t *testing.T, name string, text []byte) string {
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

func TestTLSFilesThatCannotBeUsed(t *testing.T) {
	pair := writeFile(t, "pair.pem", selfSigned(t, "a", time.Now().Add(time.Hour)))
	other := writeFile(t, "other.pem", selfSigned(t, "b", time.Now().Add(time.Hour)))
	empty := writeFile(t, "empty.pem", nil)
	for name, test := range map[string]struct {
		files TLSFiles
		is    error
		says  string
	}{
		"no CA":    {TLSFiles{CA: "/no/such/ca.pem"}, fs.ErrNotExist, "/no/such/ca.pem"},
		"empty CA": {TLSFiles{CA: empty}, nil, "no certificate"},
		"no key": {TLSFiles{CA: pair, Cert: pair, Key: "/no/such/key.pem"}, fs.ErrNotExist,
			"/no/such/key.pem"},
		"key left out":       {TLSFiles{Cert: pair}, nil, "without a Key"},
		"cert left out":      {TLSFiles{Key: pair}, nil, "without a Cert"},
		"another's key":      {TLSFiles{Cert: pair, Key: other}, nil, "private key"},
		"nothing in the key": {TLSFiles{Cert: pair, Key: empty}, nil, empty},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New("zk", WithTLSFiles(test.files))
			assert.ErrorIs(t, err, ErrInvalidOption)
			assert.ErrorContains(t, err, test.says)
			if test.is != nil {
				assert.ErrorIs(t, err, test.is)
			}
		})
	}
}

func configured(t *testing.T, opts ...Option) *options {
	o := defaultOptions()
	for _, opt := range opts {
		require.NoError(t, opt(&o))
	}
	return &o
}

func TestTLSFilesAreReadAgain(t *testing.T) {
	first, second := selfSigned(t, "first", time.Now().Add(time.Hour)),
		selfSigned(t, "second", time.Now().Add(time.Hour))
	file := writeFile(t, "pair.pem", first)
	var log bytes.Buffer
	base := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "base"}
	o := configured(t, WithTLSFiles(TLSFiles{CA: file, Cert: file, Key: file}), WithTLS(base),
		WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	name := func() string {
		leaf, err := x509.ParseCertificate(o.currentTLSConfig(o.logger).Certificates[0].Certificate[0])
		require.NoError(t, err)
		return leaf.Subject.CommonName
	}
	cfg := o.currentTLSConfig(o.logger)
	assert.EqualValues(t, tls.VersionTLS13, cfg.MinVersion)
	assert.Equal(t, "base", cfg.ServerName)
	assert.Same(t, cfg.RootCAs, o.currentTLSConfig(o.logger).RootCAs, "what has not changed is not parsed again")
	assert.Equal(t, "first", name())
	require.NoError(t, os.WriteFile(file, second, 0o600))
	assert.Equal(t, "second", name())
	assert.Empty(t, log.String())
	for _, broken := range [][]byte{nil, second[:len(second)/2]} {
		require.NoError(t, os.WriteFile(file, broken, 0o600))
		assert.Equal(t, "second", name(), "half a file does not count")
		assert.Contains(t, log.String(), "WARN")
		log.Reset()
	}
	require.NoError(t, os.Remove(file))
	assert.Equal(t, "second", name())
	assert.NotContains(t, log.String(), "PRIVATE")
	require.NoError(t, os.WriteFile(file, first, 0o600))
	assert.Equal(t, "first", name())
	assert.Equal(t, "named", configured(t, WithTLS(base),
		WithTLSFiles(TLSFiles{ServerName: "named"})).currentTLSConfig(slog.New(slog.DiscardHandler)).ServerName)
	assert.Nil(t, configured(t).currentTLSConfig(slog.New(slog.DiscardHandler)))
}

// Each error names the file or the option to look at, and keeps the reason for errors.As.
func TestTLSTrouble(t *testing.T) {
	late := selfSigned(t, "127.0.0.1", time.Now().Add(-time.Hour))
	good := selfSigned(t, "elsewhere", time.Now().Add(time.Hour))
	client := selfSigned(t, "client", time.Now().Add(time.Hour), x509.ExtKeyUsageClientAuth)
	goodFile := writeFile(t, "good.pem", good)
	pair := func(p []byte) tls.Certificate {
		c, err := tls.X509KeyPair(p, p)
		require.NoError(t, err)
		return c
	}
	shaken := func(server *tls.Config, files TLSFiles) error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			theirs, err := listener.Accept()
			listener.Close()
			if !assert.NoError(t, err) {
				return
			}
			defer theirs.Close()
			if server == nil {
				_, _ = theirs.Write([]byte("HTTP/1.1 400 no\r\n"))
			} else {
				_ = tls.Server(theirs, server).HandshakeContext(t.Context())
			}
			_, _ = io.Copy(io.Discard, theirs)
		}()
		ours, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		conn, err := handshakeTLS(t.Context(), ours, configured(t,
			WithTLSFiles(files)).currentTLSConfig(slog.New(slog.DiscardHandler)), "127.0.0.1:2281")
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 the server's objections come late
			conn.Close()
		}
		<-done
		return wrapTLSError(err)
	}
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		remote  *net.OpError
		plain   tls.RecordHeaderError
	)
	elsewhere := &tls.Config{Certificates: []tls.Certificate{pair(good)}}
	for name, test := range map[string]struct {
		server *tls.Config
		files  TLSFiles
		as     any
		says   string
	}{
		"unknown authority": {elsewhere, TLSFiles{CA: writeFile(t, "late.pem", late), ServerName: "elsewhere"},
			&unknown, "CA"},
		"another name": {elsewhere, TLSFiles{CA: goodFile}, &host, "another name"},
		"expired": {&tls.Config{Certificates: []tls.Certificate{pair(late)}},
			TLSFiles{CA: writeFile(t, "late.pem", late), ServerName: "127.0.0.1"},
			&invalid, "server's certificate has expired"},
		"a client's certificate": {&tls.Config{Certificates: []tls.Certificate{pair(client)}},
			TLSFiles{CA: writeFile(t, "client.pem", client), ServerName: "client"},
			&invalid, "server's certificate, or the CA's, cannot be used"},
		"no certificate of the client's": {&tls.Config{Certificates: []tls.Certificate{pair(good)},
			ClientAuth: tls.RequireAnyClientCert},
			TLSFiles{CA: goodFile, ServerName: "elsewhere"}, &remote, "may require a client certificate"},
		"no TLS": {nil, TLSFiles{CA: goodFile}, &plain, "secureClientPort"},
	} {
		t.Run(name, func(t *testing.T) {
			err := shaken(test.server, test.files)
			assert.ErrorIs(t, err, ErrTLS)
			assert.ErrorAs(t, err, test.as)
			assert.ErrorContains(t, err, test.says)
			assert.Equal(t, err, wrapTLSError(err), "once")
		})
	}
	assert.NoError(t, wrapTLSError(nil))
	other := errors.New("other")
	assert.Equal(t, other, wrapTLSError(other))
}

// A CA or a server name that InsecureSkipVerify makes useless is refused.
func TestACAIsNotVoidedSilently(t *testing.T) {
	ca := writeFile(t, "ca.pem", selfSigned(t, "ca", time.Now().Add(time.Hour)))
	skip := WithTLS(&tls.Config{InsecureSkipVerify: true})
	for _, opts := range [][]Option{{skip, WithTLSFiles(TLSFiles{CA: ca})},
		{WithTLSFiles(TLSFiles{CA: ca}), skip}, {skip, WithTLSFiles(TLSFiles{ServerName: "zk"})}} {
		_, err := New("zk", opts...)
		assert.ErrorIs(t, err, ErrInvalidOption)
		assert.ErrorContains(t, err, "InsecureSkipVerify")
	}
	for _, cfg := range []*tls.Config{{InsecureSkipVerify: true,
		VerifyConnection: func(tls.ConnectionState) error {
			return nil
		}},
		{InsecureSkipVerify: true, VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error {
			return nil
		}}, {}} {
		assert.NoError(t, configured(t, WithTLS(cfg), WithTLSFiles(TLSFiles{CA: ca})).checkConflicts())
	}
	assert.NoError(t, configured(t, skip, WithTLSFiles(TLSFiles{Cert: ca, Key: ca})).checkConflicts())
	assert.NoError(t, configured(t, skip).checkConflicts())
}
