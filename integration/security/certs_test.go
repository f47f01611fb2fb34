package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

// authority issues certificates into files of its directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   string // the file of its own certificate
}

var serials atomic.Int64

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign, NotBefore: time.Now().Add(-24 * time.Hour),
		NotAfter: time.Now().
			Add(time.Hour),
	}
	a.cert = a.sign(template, template, a.key)
	a.ca = a.write("ca.pem", block("CERTIFICATE", a.cert.Raw))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, of *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &of.PublicKey, a.key)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a *authority) write(name string, text []byte) string {
	file := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(file, text, 0o600))
	return file
}

// issue writes a certificate with its key for 127.0.0.1, valid for so long, and returns the file.
func (a *authority) issue(name string, valid time.Duration) string {
	key := newKey(a.t)
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}, a.cert, key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	return a.write(name+".pem", append(block("PRIVATE KEY", der), block("CERTIFICATE", cert.Raw)...))
}

// client returns the files of a client with a certificate of this name.
func (a *authority) client(name string) framework.TLSFiles {
	pair := a.issue(name, time.Hour)
	return framework.TLSFiles{CA: a.ca, Cert: pair, Key: pair}
}

// server returns the configuration of a server with TLS on the port. clients is "need" or "none" for client
// certificates.
func (a *authority) server(port int, pair, clients string) []string {
	return []string{
		fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1", "ssl.clientAuth=" + clients,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + pair, "ssl.keyStore.type=PEM", "ssl.trustStore.location=" + a.ca,
		"ssl.trustStore.type=PEM",
	}
}
